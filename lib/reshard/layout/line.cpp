#include "reshard/layout/line.hpp"

#include <algorithm>
#include <utility>

#include "reshard/base/checked.hpp"

namespace reshard::layout {

Line::Line(Index length) {
  push({0, length, 0, std::nullopt});
}

void Line::push(Piece piece) {
  if (piece.length == 0) return;
  piece.at = length_;
  length_ = checked_add(length_, piece.length);
  if (!pieces_.empty()) {
    Piece& last = pieces_.back();
    const bool continues = last.pad.has_value() ? piece.pad.has_value() && last.pad->copy_of == piece.pad->copy_of &&
                                                      last.pad->temporary == piece.pad->temporary
                                                : !piece.pad.has_value() && last.global + last.length == piece.global;
    if (continues) {
      last.length += piece.length;
      return;
    }
  }
  pieces_.push_back(std::move(piece));
}

void Line::append(const Line& from, Index begin, Index end) {
  if (begin >= end) return;
  auto piece = std::upper_bound(from.pieces_.begin(), from.pieces_.end(), begin,
                                [](Index position, const Piece& p) { return position < p.at; });
  for (--piece; piece != from.pieces_.end() && piece->at < end; ++piece) {
    const Index first = std::max(begin, piece->at);
    const Index last = std::min(end, piece->at + piece->length);
    push({0, last - first, piece->global + (first - piece->at), piece->pad});
  }
}

void Line::append(const Pad& padding) {
  push({0, padding.length, 0, Pad{0, 0, padding.copy_of, padding.temporary}});
}

std::optional<Index> Line::last_element() const {
  for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece)
    if (!piece->pad) return piece->global + piece->length - 1;
  return std::nullopt;
}

DimShard Line::shard() const {
  DimShard out;
  out.stored_length = length_;
  for (const Piece& piece : pieces_) {
    if (piece.pad)
      out.pads.push_back({piece.at, piece.length, piece.pad->copy_of, piece.pad->temporary});
    else
      out.runs.push_back({piece.global, piece.at, piece.length});
  }
  return out;
}

}  // namespace reshard::layout
