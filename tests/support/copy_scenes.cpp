#include "support/copy_scenes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "reshard/exchange/convert.hpp"

namespace reshard::copy_scenes {
namespace {

using exchange::Conversion;
using layout::CopyBox;
using layout::CopyDim;
using layout::Index;
using random_layouts::Random;

const std::vector<std::int64_t> kElementSizes = {1, 2, 4, 8, 16};
const std::vector<Dtype> kFloats = {Dtype::kF64, Dtype::kF32, Dtype::kF16, Dtype::kBf16};

/// Bytes between regions, which no task may touch.
constexpr std::int64_t kGap = 40;

std::vector<Conversion> conversions() {
  std::vector<Conversion> out;
  for (const Dtype from : kFloats)
    for (const Dtype to : kFloats)
      if (from != to) out.push_back({from, to});
  return out;
}

/// Calls visit(index in the packed box, source element, target element) for all elements of a box.
void for_each_element(const CopyBox& box, const std::function<void(Index, Index, Index)>& visit) {
  Index packed = 0;
  const std::function<void(std::size_t, Index, Index)> go = [&](std::size_t dim, Index source, Index target) {
    if (dim == box.dims.size()) return visit(packed++, source, target);
    for (Index i = 0; i < box.dims[dim].extent; ++i)
      go(dim + 1, source + i * box.dims[dim].source_stride, target + i * box.dims[dim].target_stride);
  };
  go(0, box.source_offset, box.target_offset);
}

/// Elements from the first of a buffer to the last that the box reads, or writes.
Index source_elements(const CopyBox& box) {
  Index last = box.source_offset;
  for (const CopyDim& dim : box.dims) last += (dim.extent - 1) * dim.source_stride;
  return last + 1;
}

Index target_elements(const CopyBox& box) {
  Index last = box.target_offset;
  for (const CopyDim& dim : box.dims) last += (dim.extent - 1) * dim.target_stride;
  return last + 1;
}

/// A contiguous run of elements.
CopyBox row(Index elements) {
  CopyBox box;
  box.dims = {{elements, 1, 1, 1}};
  return box;
}

class Builder {
 public:
  Builder(std::string name, std::uint64_t seed) : noise_(seed) { scene_.name = std::move(name); }

  /// A place of `bytes` noise, so many bytes beyond a multiple of 16.
  std::int64_t region(std::int64_t bytes, std::int64_t misalignment) {
    const auto used = static_cast<std::int64_t>(scene_.before.size()) + kGap;
    const std::int64_t at = (used + 15) / 16 * 16 + misalignment;
    while (scene_.before.size() < static_cast<std::size_t>(at + bytes + kGap)) {
      scene_.before.push_back(static_cast<std::byte>(noise_() >> 13));
      scene_.after.push_back(scene_.before.back());
    }
    return at;
  }

  /// Puts a value into a place that only tasks read.
  template <typename Word>
  void put(std::int64_t at, Word word) {
    std::memcpy(scene_.before.data() + at, &word, sizeof(Word));
    std::memcpy(scene_.after.data() + at, &word, sizeof(Word));
  }

  void move(const CopyBox& box, std::int64_t element_bytes, std::optional<Conversion> conversion,
            std::int64_t source_misalignment, std::int64_t target_misalignment) {
    const std::int64_t target_bytes = conversion ? size_bytes(conversion->to) : element_bytes;
    const std::int64_t source = region(source_elements(box) * element_bytes, source_misalignment);
    const std::int64_t target = region(target_elements(box) * target_bytes, target_misalignment);
    move_between(box, element_bytes, conversion, source, target);
  }

  void move_between(const CopyBox& box, std::int64_t element_bytes, std::optional<Conversion> conversion,
                    std::int64_t source, std::int64_t target) {
    exchange::add_move(scene_.tasks, box, element_bytes, conversion, source, target);
    for_each_element(
        box, [&](Index, Index from, Index to) { element(source, from, element_bytes, conversion, target, to); });
  }

  void pack(const CopyBox& box, std::int64_t element_bytes, std::optional<Conversion> conversion,
            std::int64_t source_misalignment, std::int64_t packed_misalignment) {
    const std::int64_t packed_bytes = conversion ? size_bytes(conversion->to) : element_bytes;
    const std::int64_t source = region(source_elements(box) * element_bytes, source_misalignment);
    const std::int64_t packed = region(box.elements() * packed_bytes, packed_misalignment);
    exchange::add_pack(scene_.tasks, box, element_bytes, conversion, source, packed);
    for_each_element(
        box, [&](Index at, Index from, Index) { element(source, from, element_bytes, conversion, packed, at); });
  }

  void unpack(const CopyBox& box, std::int64_t element_bytes, std::int64_t packed_misalignment,
              std::int64_t target_misalignment) {
    const std::int64_t packed = region(box.elements() * element_bytes, packed_misalignment);
    const std::int64_t target = region(target_elements(box) * element_bytes, target_misalignment);
    exchange::add_unpack(scene_.tasks, box, element_bytes, packed, target);
    for_each_element(box, [&](Index at, Index, Index to) { element(packed, at, element_bytes, {}, target, to); });
  }

  void zeros(std::int64_t bytes, std::int64_t misalignment) {
    const std::int64_t target = region(bytes, misalignment);
    exchange::add_zeros(scene_.tasks, target, bytes);
    std::fill_n(scene_.after.begin() + target, bytes, std::byte{0});
  }

  CopyScene take() {
    scene_.tiles = exchange::number_tiles(scene_.tasks);
    return std::move(scene_);
  }

 private:
  /// What becomes of one element: number `from` of a source at a byte goes to number `to` of a target at a byte.
  void element(std::int64_t source, Index from, std::int64_t element_bytes, std::optional<Conversion> conversion,
               std::int64_t target, Index to) {
    const std::byte* const in = scene_.before.data() + source + from * element_bytes;
    if (conversion) {
      const std::int64_t out_bytes = size_bytes(conversion->to);
      std::byte* const out = scene_.after.data() + target + to * out_bytes;
      exchange::convert(conversion->from, {in, static_cast<std::size_t>(element_bytes)}, conversion->to,
                        {out, static_cast<std::size_t>(out_bytes)});
    } else {
      std::byte* const out = scene_.after.data() + target + to * element_bytes;
      for (std::int64_t i = 0; i < element_bytes; ++i) out[i] = in[i];
    }
  }

  CopyScene scene_;
  std::mt19937_64 noise_;
};

CopyScene random_boxes(std::uint64_t seed) {
  Builder builder(fmt::format("random boxes {}", seed), seed);
  Random random(seed);
  for (int i = 0; i < 200; ++i) {
    const CopyBox box = random_box(random);
    const std::int64_t bytes = random.one_of(kElementSizes);
    const std::int64_t from = random.chance(40) ? 0 : random.between(0, 15);
    const std::int64_t to = random.chance(40) ? 0 : random.between(0, 15);
    builder.move(box, bytes, {}, from, to);
    builder.pack(box, bytes, {}, from, to);
    builder.unpack(box, bytes, from, to);
  }
  return builder.take();
}

CopyScene random_conversions(std::uint64_t seed) {
  Builder builder(fmt::format("random boxes {}, converted", seed), seed);
  Random random(seed);
  for (int i = 0; i < 200; ++i) {
    const CopyBox box = random_box(random);
    const Conversion conversion = random.one_of(conversions());
    const std::int64_t bytes = size_bytes(conversion.from);
    const std::int64_t from = random.chance(40) ? 0 : random.between(0, 15);
    const std::int64_t to = random.chance(40) ? 0 : random.between(0, 15);
    builder.move(box, bytes, conversion, from, to);
    builder.pack(box, bytes, conversion, from, to);
  }
  return builder.take();
}

CopyScene all_alignments() {
  Builder builder("every alignment of both sides, runs of 1 to 40 bytes", 1);
  for (std::int64_t from = 0; from < 16; ++from)
    for (std::int64_t to = 0; to < 16; ++to)
      for (Index bytes = 1; bytes <= 40; ++bytes) builder.move(row(bytes), 1, {}, from, to);
  return builder.take();
}

CopyScene zero_fill() {
  Builder builder("zeros at every alignment", 2);
  for (std::int64_t at = 0; at < 16; ++at)
    for (std::int64_t bytes = 0; bytes <= 40; ++bytes) builder.zeros(bytes, at);
  builder.zeros(2 * exchange::kCopyTileBytes + 16, 0);
  builder.zeros(2 * exchange::kCopyTileBytes + 3, 5);
  return builder.take();
}

/// Tiles that end inside a run, at its end, and within rows of a box that are no divisor of a tile.
CopyScene tile_boundaries() {
  Builder builder("runs and rows of several tiles", 3);
  for (const std::int64_t bytes : kElementSizes) {
    const Index tile = exchange::kCopyTileBytes / bytes;
    for (const Index elements : {tile - 1, tile, tile + 1, 3 * tile, 3 * tile + 5}) {
      builder.move(row(elements), bytes, {}, 0, 0);
      builder.move(row(elements), bytes, {}, 0, 3);
    }
    CopyBox rows;
    rows.dims = {{tile / 100, 333, 350, 1}, {301, 1, 1, 1}};
    builder.move(rows, bytes, {}, 0, 0);
    CopyBox single;  // runs of one element
    single.dims = {{2 * tile + 77, 2, 3, 1}};
    builder.move(single, bytes, {}, 0, 0);
  }
  return builder.take();
}

/// Boxes of five and six levels that nothing joins.
CopyScene many_levels() {
  Builder builder("boxes of more levels than a task has", 4);
  CopyBox box;
  Index source = 1;
  Index target = 1;
  for (const Index extent : {3, 2, 3, 2, 3, 2}) {
    box.dims.insert(box.dims.begin(), {extent, source, target, 1});
    source *= extent + 1;
    target *= extent + 2;
  }
  CopyBox six = box;
  six.dims.back().source_stride = 0;
  for (const std::int64_t bytes : kElementSizes)
    for (const CopyBox& levels : {box, six}) {
      builder.move(levels, bytes, {}, 0, 0);
      builder.pack(levels, bytes, {}, 3, 0);
      builder.unpack(levels, bytes, 0, 5);
    }
  for (const Conversion conversion : conversions()) builder.move(six, size_bytes(conversion.from), conversion, 0, 0);
  return builder.take();
}

CopyScene repeated_source() {
  Builder builder("one row that goes to many places", 5);
  CopyBox box;
  box.dims = {{700, 0, 130, 1}, {125, 1, 1, 1}};
  for (const std::int64_t bytes : kElementSizes) {
    builder.move(box, bytes, {}, 0, 0);
    builder.pack(box, bytes, {}, 0, 1);
  }
  return builder.take();
}

CopyScene all_values(Dtype from) {
  Builder builder(fmt::format("every value of {}", name(from)), 6);
  for (const Dtype to : kFloats) {
    if (to == from) continue;
    const std::int64_t source = builder.region(2 * 65536, 0);
    for (std::int64_t i = 0; i < 65536; ++i) builder.put(source + 2 * i, static_cast<std::uint16_t>(i));
    builder.move_between(row(65536), 2, Conversion{from, to}, source, builder.region(65536 * size_bytes(to), 0));
  }
  return builder.take();
}

/// Half of them any bits; the others one bit around the middle between two values of the narrower dtype, where it is
/// decided which way they are rounded.
template <typename Word>
CopyScene random_values(Dtype from) {
  Builder builder(fmt::format("random values of {}", name(from)), 7);
  std::mt19937_64 random(8);
  constexpr Index count = 100'000;
  constexpr auto bytes = static_cast<std::int64_t>(sizeof(Word));
  for (const Dtype to : kFloats) {
    if (to == from) continue;
    const std::int64_t source = builder.region(count * bytes, 0);
    for (Index i = 0; i < count; ++i) {
      auto word = static_cast<Word>(random());
      if (i % 2 == 0) {
        Word narrow = 0;  // the bits of any narrower value, as this dtype has them
        const std::uint64_t bits = random();
        const Dtype low = size_bytes(to) < bytes ? to : Dtype::kF16;
        exchange::convert(low, std::as_bytes(std::span(&bits, 1)).first(static_cast<std::size_t>(size_bytes(low))),
                          from, std::as_writable_bytes(std::span(&narrow, 1)));
        const int dropped = static_cast<int>(random() % (sizeof(Word) * 7));
        word = static_cast<Word>(narrow + (Word{1} << dropped) + random() % 3 - 1);
      }
      builder.put(source + i * bytes, word);
    }
    builder.move_between(row(count), bytes, Conversion{from, to}, source, builder.region(count * size_bytes(to), 0));
  }
  return builder.take();
}

}  // namespace

CopyBox random_box(Random& random) {
  const Index dims = random.between(1, 6);
  CopyBox box;
  Index source = 1;
  Index target = 1;
  for (Index i = 0; i < dims; ++i) {
    const Index extent = i == 0 && random.chance(30) ? random.between(1, 300) : random.between(1, 5);
    const bool repeats = random.chance(10);
    box.dims.insert(box.dims.begin(), {extent, repeats ? 0 : source, target, 1});
    if (!repeats) source *= extent + (random.chance(50) ? random.between(1, 3) : 0);
    target *= extent + (random.chance(50) ? random.between(1, 3) : 0);
  }
  box.source_offset = random.between(0, 20);
  box.target_offset = random.between(0, 20);
  return box;
}

std::vector<CopyScene> copy_scenes() {
  std::vector<CopyScene> out;
  for (std::uint64_t seed = 11; seed <= 13; ++seed) {
    out.push_back(random_boxes(seed));
    out.push_back(random_conversions(seed));
  }
  out.push_back(all_alignments());
  out.push_back(zero_fill());
  out.push_back(tile_boundaries());
  out.push_back(many_levels());
  out.push_back(repeated_source());
  out.push_back(all_values(Dtype::kF16));
  out.push_back(all_values(Dtype::kBf16));
  out.push_back(random_values<std::uint32_t>(Dtype::kF32));
  out.push_back(random_values<std::uint64_t>(Dtype::kF64));
  return out;
}

std::string difference(const std::vector<std::byte>& found, const std::vector<std::byte>& expected) {
  if (found == expected) return "";
  if (found.size() != expected.size()) return fmt::format("{} bytes, expected {}", found.size(), expected.size());
  std::size_t wrong = 0;
  std::size_t first = 0;
  for (std::size_t i = found.size(); i-- > 0;)
    if (found[i] != expected[i]) {
      ++wrong;
      first = i;
    }
  return fmt::format("{} bytes of {} differ; byte {} is {:#04x}, expected {:#04x}", wrong, found.size(), first,
                     std::to_integer<int>(found[first]), std::to_integer<int>(expected[first]));
}

}  // namespace reshard::copy_scenes
