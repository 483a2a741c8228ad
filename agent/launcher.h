// Which rank of which job a process is, as its launcher left it in the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/record.h"

namespace laggard::agent {

/// The value of a variable, "" when it is not set.
using Variables = std::function<std::string(const std::string& name)>;

/// Of this process.
Variables process_environment();

/// A value, and the variable that it is from.
template <typename T>
struct Found {
  T value{};
  std::string variable;
  friend bool operator==(const Found&, const Found&) = default;
};

struct Launch {
  std::string launcher;  ///< "torchrun", "Slurm", ...; "" when none left a rank behind
  std::optional<Found<Rank>> rank, local_rank;
  std::optional<Found<std::uint32_t>> world_size;  ///< none beside a LAGGARD_RANK that stands alone
  std::optional<Found<std::uint32_t>> attempt;     ///< from LAGGARD_ATTEMPT
  /// How often the job was started again before this start: the attempt is one more.
  std::optional<Found<std::uint32_t>> restarts;
  std::optional<Found<std::string>>
      launch;                             ///< what all ranks of this start have in common, and no other start
  std::optional<Found<std::string>> run;  ///< a name that all ranks of the job have, and other jobs have not
  std::vector<std::string> remarks;       ///< what disagrees, or was not taken and why: a sentence each
  std::vector<std::string> wrong;         ///< LAGGARD_* that cannot be: a sentence each
  /// Without a rank: the remark that speaks of several, so that this is hardly the only one.
  std::optional<std::string> unclear;
};

/// LAGGARD_* where it is set, else the first launcher that set its rank and world size together, in the order
/// of docs/launchers.md: those that others start (torchrun inside of srun) come first.
Launch read_launch(const Variables& variables);

/// Why no run can have this name, as the collector sees it: "it is ..."; nothing when one can.
std::optional<std::string> bad_run_name(std::string_view name);
/// The name that comes nearest to it and can be one; "" when nothing is left.
std::string usable_run_name(std::string_view name);

/// A decimal number in the whole text; nothing for anything else.
std::optional<std::uint32_t> parse_number(const std::string& text);

}  // namespace laggard::agent
