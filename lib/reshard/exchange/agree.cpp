#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reshard/base/crc64.hpp"
#include "reshard/exchange/communicator.hpp"

namespace reshard::exchange {
namespace {

/// Fields are written as "<length>:<bytes>", so that any text passes.
void put(std::string& out, std::string_view field) {
  out += fmt::format("{}:{}", field.size(), field);
}

std::string take(std::string_view& in) {
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(in.data(), in.data() + in.size(), length);
  const auto digits = static_cast<std::size_t>(end - in.data());
  if (error != std::errc{} || digits + 1 + length > in.size()) internal_error("a process sent a broken error report");
  std::string field(in.substr(digits + 1, length));
  in.remove_prefix(digits + 1 + length);
  return field;
}

std::string encode(const Error* error) {
  if (error == nullptr) return "";
  std::string out;
  put(out, std::to_string(static_cast<int>(error->exit())));
  for (const Issue& issue : error->issues()) {
    put(out, code_name(issue.code));
    put(out, issue.where);
    put(out, issue.tensor ? "tensor" : "");
    put(out, issue.tensor.value_or(""));
    put(out, issue.message);
  }
  return out;
}

Error decode(std::string_view text) {
  const auto exit = static_cast<Exit>(std::stoi(take(text)));
  std::vector<Issue> issues;
  while (!text.empty()) {
    Issue issue;
    issue.code = code_from_name(take(text));
    issue.where = take(text);
    const bool of_tensor = !take(text).empty();
    std::string tensor = take(text);
    if (of_tensor) issue.tensor = std::move(tensor);
    issue.message = take(text);
    issues.push_back(std::move(issue));
  }
  return Error(exit, std::move(issues));
}

}  // namespace

bool same_everywhere(Communicator& communicator, std::string_view text) {
  const std::vector<std::string> all =
      communicator.all_gather(crc64::to_hex(crc64::digest(std::as_bytes(std::span(text)))));
  return std::all_of(all.begin(), all.end(), [&](const std::string& theirs) { return theirs == all.front(); });
}

void agree(Communicator& communicator, const Error* error) {
  if (communicator.size() == 1) {
    communicator.clear_alarms();
    if (error != nullptr) throw AgreedError(*error);
    return;
  }
  // The usual case first: one number, nothing gathered.
  std::int64_t failed = error == nullptr ? 0 : 1;
  communicator.all_sum({&failed, 1});
  if (failed == 0) return;
  const std::vector<std::string> reports = communicator.all_gather(encode(error));
  communicator.clear_alarms();
  std::vector<std::optional<Error>> errors;
  for (const std::string& report : reports)
    errors.push_back(report.empty() ? std::nullopt : std::optional(decode(report)));
  // A process that has failed goes on with whatever bytes: what others find wrong with those is no fault of its own.
  const auto is_digest = [](const Issue& issue) { return issue.code == ErrorCode::kDigest; };
  const bool only_digests = std::all_of(errors.begin(), errors.end(), [&](const std::optional<Error>& theirs) {
    return !theirs || std::all_of(theirs->issues().begin(), theirs->issues().end(), is_digest);
  });
  std::vector<Issue> issues;
  std::optional<Exit> exit;
  for (std::size_t process = 0; process < errors.size(); ++process) {
    if (!errors[process]) continue;
    const Error& theirs = *errors[process];
    if (!only_digests && std::all_of(theirs.issues().begin(), theirs.issues().end(), is_digest)) continue;
    if (!exit) exit = theirs.exit();
    for (Issue issue : theirs.issues()) {
      if (static_cast<std::size_t>(failed) < reports.size())
        issue.message += fmt::format(" (seen by process {} of {})", process, reports.size());
      if (std::find(issues.begin(), issues.end(), issue) == issues.end()) issues.push_back(std::move(issue));
    }
  }
  throw AgreedError(Error(*exit, std::move(issues)));
}

}  // namespace reshard::exchange
