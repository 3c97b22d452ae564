#include "reshard/pipeline/survey_judgement.hpp"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "reshard/base/crc64.hpp"

namespace reshard::pipeline {
namespace {

using planner::HolderSets;

class Judgement {
 public:
  Judgement(const TargetSurvey& survey, const SurveyDigests& digests) : survey_(survey), sets_(digests.sets) {
    for (std::size_t f = 0; f < digests.files.size(); ++f) {
      const TargetSurvey::File& file = survey.files()[f];
      const std::uint64_t digest = crc64::finish(digests.files[f], file.expected.bytes);
      is_right_.push_back(file.is_whole && digest == file.expected.digest);
      if (file.is_whole && !is_right_.back())
        problems_.push_back(
            {ErrorCode::kDigest, file.name, kNoTensor, crc64::to_hex(file.expected.digest), crc64::to_hex(digest)});
    }
    std::vector<std::vector<const TargetSurvey::Shard*>> by_tensor(survey.tensors().size());
    for (const TargetSurvey::Shard& shard : survey.shards()) by_tensor[shard.tensor].push_back(&shard);
    for (std::size_t t = 0; t < by_tensor.size(); ++t) judge(t, by_tensor[t]);
  }

  std::vector<TargetProblem> take_problems() { return std::move(problems_); }

 private:
  /// The copy of a set that stands for it.
  struct Chosen {
    std::uint64_t value = 0;
    std::size_t file = 0;
  };

  void judge(std::size_t t, const std::vector<const TargetSurvey::Shard*>& shards) {
    const TargetSurvey::Tensor& tensor = survey_.tensors()[t];
    const TargetSurvey::Layout& layout = survey_.layouts()[tensor.layout];
    // A file whose own digest is right has the right copy, if any has.
    std::map<HolderSets::Set, Chosen> chosen;
    const auto visit_sets = [&](const TargetSurvey::Shard& shard, const auto& visit) {
      const std::vector<HolderSets::Set> sets = layout.sets.sets_of(*survey_.files()[shard.file].rank);
      for (std::size_t i = 0; i < sets.size(); ++i) visit(sets[i], sets_[shard.first_register + i]);
    };
    for (const TargetSurvey::Shard* shard : shards)
      visit_sets(*shard, [&](const HolderSets::Set& set, std::uint64_t value) {
        const auto [known, added] = chosen.try_emplace(set, Chosen{value, shard->file});
        if (!added && !is_right_[known->second.file] && is_right_[shard->file]) known->second = {value, shard->file};
      });
    for (const TargetSurvey::Shard* shard : shards) {
      const Chosen* other = nullptr;
      visit_sets(*shard, [&](const HolderSets::Set& set, std::uint64_t value) {
        if (other == nullptr && chosen.at(set).value != value) other = &chosen.at(set);
      });
      if (other != nullptr)
        problems_.push_back({ErrorCode::kDigest, survey_.files()[shard->file].name, *tensor.name,
                             "the copy in " + survey_.files()[other->file].name, "other bytes"});
    }
    if (chosen.size() < layout.all_sets.size()) return;  // some of it could not be read, as is told

    std::uint64_t sum = 0;
    std::set<std::size_t> files;
    for (const auto& [set, copy] : chosen) {
      sum ^= copy.value;
      files.insert(copy.file);
    }
    const std::uint64_t digest = crc64::finish(sum, tensor.bytes());
    if (digest == tensor.entry->digest) return;
    if (files.size() > 1) std::erase_if(files, [&](std::size_t f) { return is_right_[f]; });
    problems_.push_back({ErrorCode::kDigest, files.size() == 1 ? survey_.files()[*files.begin()].name : "",
                         *tensor.name, crc64::to_hex(tensor.entry->digest), crc64::to_hex(digest)});
  }

  const TargetSurvey& survey_;
  const std::vector<std::uint64_t>& sets_;
  std::vector<bool> is_right_;  // by file
  std::vector<TargetProblem> problems_;
};

}  // namespace

std::vector<TargetProblem> judge(const TargetSurvey& survey, const SurveyDigests& digests) {
  return Judgement(survey, digests).take_problems();
}

}  // namespace reshard::pipeline
