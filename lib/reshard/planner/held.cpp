#include "reshard/planner/held.hpp"

#include <algorithm>
#include <cstddef>

namespace reshard::planner {
namespace {

// Where a part's run begins or ends on the line of global indices.
struct Event {
  Index global = 0;
  bool begins = false;
  Holding holding;  // of the run's first index
};

}  // namespace

std::vector<HeldRange> held_ranges(const layout::DimLayout& dim) {
  std::vector<Event> events;
  for (std::size_t part = 0; part < dim.parts.size(); ++part)
    for (const layout::Run& run : dim.parts[part].runs) {
      const Holding holding{static_cast<std::int32_t>(part), run.stored};
      events.push_back({run.global, true, holding});
      events.push_back({run.global + run.length, false, holding});
    }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.global < b.global; });

  // Sweep: `active` holds the runs over the current range, ascending by part, each with its stored position at `from`.
  std::vector<HeldRange> out;
  std::vector<Holding> active;
  Index from = 0;
  for (std::size_t i = 0; i < events.size();) {
    const Index at = events[i].global;
    if (!active.empty()) {
      out.push_back({from, at - from, active});
      for (Holding& holding : active) holding.stored += at - from;
    }
    from = at;
    const auto by_part = [](const Holding& a, const Holding& b) { return a.part < b.part; };
    const std::size_t first = i;
    for (; i < events.size() && events[i].global == at; ++i)
      if (!events[i].begins) active.erase(std::lower_bound(active.begin(), active.end(), events[i].holding, by_part));
    for (std::size_t j = first; j < i; ++j)
      if (events[j].begins)
        active.insert(std::upper_bound(active.begin(), active.end(), events[j].holding, by_part), events[j].holding);
  }
  return out;
}

}  // namespace reshard::planner
