#include "reshard/pipeline/document_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reshard/base/json.hpp"

namespace reshard::pipeline {
namespace {

constexpr std::int64_t kVersion = 1;

}  // namespace

Value DocumentReader::document(std::string_view json) const {
  Value root = parse_json(json, path_.string());
  const Value* const schema = root.find("schema");
  if (schema == nullptr || !schema->is_string() || schema->string() != kind_.schema)
    refuse({}, fmt::format("is no {}: its 'schema' is not \"{}\"", kind_.whole, kind_.schema));
  if (const std::int64_t version = number(root, "version"); version != kVersion)
    refuse({}, fmt::format("has version {}, this tool reads version {}", version, kVersion));
  return root;
}

void DocumentReader::refuse(std::optional<std::string_view> tensor, std::string message) const {
  throw Error(Issue{ErrorCode::kFormat, path_.string(), std::optional<std::string>(tensor), std::move(message)});
}

void DocumentReader::refuse_kind(std::optional<std::string_view> tensor, std::string_view key, const Value& found,
                                 std::string_view expected) const {
  refuse(tensor, fmt::format("'{}': found {}, expected {}", key, found.kind(), expected));
}

const Value& DocumentReader::require(const Value& object, std::string_view key,
                                     std::optional<std::string_view> tensor) const {
  const Value* const value = object.find(key);
  if (value == nullptr) refuse(tensor, fmt::format("has no '{}'", key));
  return *value;
}

std::string DocumentReader::text(const Value& object, std::string_view key,
                                 std::optional<std::string_view> tensor) const {
  const Value& value = require(object, key, tensor);
  if (!value.is_string()) refuse_kind(tensor, key, value, "a string");
  return value.string();
}

std::int64_t DocumentReader::number(const Value& object, std::string_view key,
                                    std::optional<std::string_view> tensor) const {
  const Value& value = require(object, key, tensor);
  if (!value.is_integer() || value.integer() < 0) refuse_kind(tensor, key, value, "an integer of 0 or more");
  return value.integer();
}

const Value& DocumentReader::list(const Value& object, std::string_view key,
                                  std::optional<std::string_view> tensor) const {
  const Value& value = require(object, key, tensor);
  if (!value.is_array()) refuse_kind(tensor, key, value, "a list");
  return value;
}

const Value& DocumentReader::map(const Value& object, std::string_view key) const {
  const Value& value = require(object, key);
  if (!value.is_object()) refuse_kind({}, key, value, "a map");
  return value;
}

Dtype DocumentReader::dtype(const Value& object, std::optional<std::string_view> tensor) const {
  const std::string name = text(object, "dtype", tensor);
  const std::optional<Dtype> known = dtype_from_name(name);
  if (!known) refuse(tensor, fmt::format("'{}' is no dtype", name));
  return *known;
}

Shape DocumentReader::shape(const Value& value, std::string_view key, std::optional<std::string_view> tensor) const {
  if (!value.is_array()) refuse_kind(tensor, key, value, "a list of integers");
  Shape out;
  for (const Value& extent : value.array()) {
    if (!extent.is_integer() || extent.integer() < 0) refuse_kind(tensor, key, extent, "integers of 0 or more");
    out.push_back(extent.integer());
  }
  return out;
}

void DocumentReader::check_keys(const Value& object, const std::string& what, std::optional<std::string_view> tensor,
                                std::initializer_list<std::string_view> legal) const {
  if (!object.is_object())
    refuse(tensor, fmt::format("{} is a {}, expected a map", what.empty() ? "it" : what, object.kind()));
  for (const Value::Member& member : object.object())
    if (std::find(legal.begin(), legal.end(), member.key) == legal.end())
      refuse(tensor, fmt::format("{}'{}' is no key of a {} of version {}", what.empty() ? "" : what + ": ", member.key,
                                 kind_.noun, kVersion));
}

}  // namespace reshard::pipeline
