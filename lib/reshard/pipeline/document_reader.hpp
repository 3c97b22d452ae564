#pragma once
// What readers of our own JSON documents share: schema and version, the kinds of members, refusals that name file and
// tensor. Every fault is kFormat: a document is a file of a checkpoint.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "reshard/base/dtype.hpp"
#include "reshard/base/error.hpp"
#include "reshard/base/file.hpp"
#include "reshard/base/value.hpp"

namespace reshard::pipeline {

/// How a kind of document names itself, and how messages do.
struct DocumentKind {
  std::string_view schema;  ///< "reshard.manifest"
  std::string_view noun;    ///< "manifest"
  std::string_view whole;   ///< "manifest of a finished target"
};

class DocumentReader {
 protected:
  DocumentReader(fs::path path, DocumentKind kind) : path_(std::move(path)), kind_(kind) {}

  /// The whole document. Errors: kFormat (another schema or version), those of parse_json.
  Value document(std::string_view json) const;

  [[noreturn]] void refuse(std::optional<std::string_view> tensor, std::string message) const;
  [[noreturn]] void refuse_kind(std::optional<std::string_view> tensor, std::string_view key, const Value& found,
                                std::string_view expected) const;
  const Value& require(const Value& object, std::string_view key, std::optional<std::string_view> tensor = {}) const;
  std::string text(const Value& object, std::string_view key, std::optional<std::string_view> tensor = {}) const;
  std::int64_t number(const Value& object, std::string_view key, std::optional<std::string_view> tensor = {}) const;
  const Value& list(const Value& object, std::string_view key, std::optional<std::string_view> tensor = {}) const;
  const Value& map(const Value& object, std::string_view key) const;
  Dtype dtype(const Value& object, std::optional<std::string_view> tensor) const;
  Shape shape(const Value& value, std::string_view key, std::optional<std::string_view> tensor) const;
  /// `object` is a map that has no key but these; `what` says what it is, empty for a tensor's entry or the document.
  void check_keys(const Value& object, const std::string& what, std::optional<std::string_view> tensor,
                  std::initializer_list<std::string_view> legal) const;

  const fs::path path_;

 private:
  DocumentKind kind_;
};

}  // namespace reshard::pipeline
