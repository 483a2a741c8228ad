// A job profile: what the records of a job do not say about themselves.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace laggard {

/// A ratio of summed counts, in percent: 100 * numerator / denominator, or 100 * (1 - numerator /
/// denominator) when `complement` is set.
struct Ratio {
  std::string name;  ///< "padding %"
  std::string numerator;
  std::string denominator;
  bool complement = false;
  bool operator==(const Ratio&) const = default;
};

struct Profile {
  std::map<std::string, std::string> parents;          ///< stage -> the stage it is inside of
  std::map<std::string, std::string> kinds;            ///< stage -> work, input, sync or aside
  std::map<std::string, std::string> exclusive_names;  ///< parent -> name of its exclusive time
  std::vector<std::string> stage_order;                ///< rows of a report, these first
  std::vector<Ratio> ratios;
  std::vector<std::string> may_differ;    ///< settings that runs to be compared need not share
  std::vector<std::string> match_counts;  ///< counts whose sums must agree, step by step

  bool operator==(const Profile&) const = default;
};

/// Reads a profile from TOML text; `where` names it in errors. Throws Error for TOML that cannot be read, an
/// unknown key (with its line), a kind that does not exist, or parents that form a circle.
Profile parse_profile(std::string_view toml, const std::string& where);
/// The same from a file.
Profile load_profile(const std::string& path);

}  // namespace laggard
