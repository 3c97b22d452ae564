#include <string>
#include <string_view>

#include "reshard/report/page.hpp"
#include "reshard/report/page_data.hpp"
#include "reshard/report/plan_report.hpp"

namespace reshard::report {
namespace {

/// JSON that cannot end the script element it stands in, nor begin a comment there: `<` is written as its escape, which
/// means the same inside strings, the only place where JSON has it.
std::string without_tags(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string plan_html(const pipeline::PlanSummary& summary) {
  constexpr std::string_view kPlace = "{{data}}";
  const std::string_view page = page_template();
  const std::size_t place = page.find(kPlace);
  std::string out(page.substr(0, place));
  out += without_tags(page_data(summary));
  out += page.substr(place + kPlace.size());
  return out;
}

}  // namespace reshard::report
