#include "agent/launcher.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>

#include "agent/utf8.h"
#include "daemon/base/limits.h"

namespace laggard::agent {
namespace {

using Names = std::vector<std::string>;

constexpr std::uint32_t kRestartsOfTorchrun = 100;  // more than it is told to do in one job of Slurm

/// The variables of one launcher; of several names the first that is set counts.
struct Convention {
  std::string launcher;
  std::string rank;
  Names world_size, local_rank;
};

// torchrun and its like are not here: their names are too common to be taken one by one.
const std::vector<Convention>& conventions() {
  static const std::vector<Convention> kConventions{
      {"JSM", "JSM_NAMESPACE_RANK", {"JSM_NAMESPACE_SIZE"}, {"JSM_NAMESPACE_LOCAL_RANK"}},
      {"PALS", "PALS_RANKID", {"PALS_SIZE", "PMI_SIZE"}, {"PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"}},
      {"Open MPI", "OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE"}, {"OMPI_COMM_WORLD_LOCAL_RANK"}},
      {"MVAPICH2", "MV2_COMM_WORLD_RANK", {"MV2_COMM_WORLD_SIZE"}, {"MV2_COMM_WORLD_LOCAL_RANK"}},
      {"Hydra", "PMI_RANK", {"PMI_SIZE"}, {"PMI_LOCAL_RANK", "MPI_LOCALRANKID"}},
      {"Flux", "FLUX_TASK_RANK", {"FLUX_JOB_SIZE"}, {"FLUX_TASK_LOCAL_ID"}},
      {"Slurm", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, {"SLURM_LOCALID"}}};
  return kConventions;
}

/// Which start of the job it is: what these hold together. The port at which ranks meet is one for all of
/// them, while each may have another name for the machine.
const std::map<std::string, Names>& launch_variables() {
  static const std::map<std::string, Names> kVariables{{"torchrun", {"MASTER_PORT"}},
                                                       {"PALS", {"PALS_APID"}},
                                                       {"Open MPI", {"PMIX_NAMESPACE"}},
                                                       {"Flux", {"FLUX_JOB_ID"}},
                                                       {"Slurm", {"SLURM_JOB_ID", "SLURM_STEP_ID"}}};
  return kVariables;
}

/// What one launcher says, once it is known to be whole.
struct Place {
  std::string launcher;
  Found<Rank> rank;
  Found<std::uint32_t> world_size;
  std::optional<Found<Rank>> local_rank;
};

class Reader {
 public:
  explicit Reader(const Variables& variables) : variables_(variables) {}

  Launch read() {
    const auto world_size = own("LAGGARD_WORLD_SIZE", 1, limits::kMaxRank);
    if (const auto rank = own("LAGGARD_RANK", 0, limits::kMaxRank - 1)) {
      out_.launcher = "LAGGARD_RANK";
      out_.rank = rank;
      out_.world_size = world_size;
    }
    out_.attempt = own("LAGGARD_ATTEMPT", 1, limits::kMaxAttempt);
    take(torch());
    for (const Convention& convention : conventions())
      if (convention.launcher != "Slurm" || !in_batch_script()) take(place_of(convention));
    if (world_size) out_.world_size = world_size;
    if (out_.rank || (out_.world_size && out_.world_size->value == 1)) out_.unclear.reset();
    out_.restarts = restarts();
    out_.launch = launch();
    out_.run = run();
    return std::move(out_);
  }

 private:
  std::optional<Found<std::uint32_t>> number(const Names& names) {
    for (const std::string& name : names) {
      const std::string text = variables_(name);
      if (text.empty()) continue;
      if (const auto value = parse_number(text)) return Found<std::uint32_t>{*value, name};
      remark(name + "=" + text + " is not taken: it is no number");
    }
    return std::nullopt;
  }

  // Whoever is told a rank that cannot be read is one of several.
  std::optional<Found<std::uint32_t>> place_number(const Names& names) {
    const std::size_t before = out_.remarks.size();
    auto found = number(names);
    if (!found && out_.remarks.size() > before) out_.unclear = out_.remarks.back();
    return found;
  }

  std::optional<Found<std::uint32_t>> own(const std::string& name, std::uint32_t least, std::uint32_t most) {
    const std::string text = variables_(name);
    if (text.empty()) return std::nullopt;
    const auto value = parse_number(text);
    if (value && *value >= least && *value <= most) return Found<std::uint32_t>{*value, name};
    out_.wrong.push_back(name + "=" + text + ": it is a number from " + std::to_string(least) + " to " +
                         std::to_string(most));
    return std::nullopt;
  }

  // Kubernetes operators set RANK for each pod, whose processes then all have the same.
  std::optional<Place> torch() {
    const auto rank = place_number({"RANK"}), world_size = place_number({"WORLD_SIZE"}),
               local = place_number({"LOCAL_RANK"});
    if (rank && world_size && local) return checked({"torchrun", *rank, *world_size, local});
    if (rank || world_size || (local && local->value > 0)) {
      remark((rank ? text_of(*rank, world_size) : text_of(world_size ? *world_size : *local)) +
             " is not taken: RANK, WORLD_SIZE and LOCAL_RANK only count together");
      if (!is_single(rank, world_size)) out_.unclear = out_.remarks.back();
    }
    return std::nullopt;
  }

  std::optional<Place> place_of(const Convention& convention) {
    const auto rank = place_number({convention.rank});
    if (!rank) return std::nullopt;
    const auto world_size = place_number(convention.world_size);
    if (world_size) return checked({convention.launcher, *rank, *world_size, number(convention.local_rank)});
    // A Cray has PMI's rank beside its own; only one of them has the size under a name of its own.
    remark(convention.rank + " is not taken: " + convention.world_size.back() + " is not set with it");
    out_.unclear = out_.remarks.back();
    return std::nullopt;
  }

  std::optional<Place> checked(Place place) {
    if (place.rank.value < place.world_size.value && place.world_size.value <= limits::kMaxRank) return place;
    remark(text_of(place) + " is not taken: there is no such rank");
    out_.unclear = out_.remarks.back();
    return std::nullopt;
  }

  static bool is_single(const std::optional<Found<Rank>>& rank,
                        const std::optional<Found<std::uint32_t>>& world_size) {
    return (!rank || rank->value == 0) && world_size && world_size->value == 1;
  }

  static std::string text_of(const Found<std::uint32_t>& found) {
    return found.variable + "=" + std::to_string(found.value);
  }
  static std::string text_of(const Found<Rank>& rank, const std::optional<Found<std::uint32_t>>& world_size) {
    return text_of(rank) + (world_size ? " of " + text_of(*world_size) : "");
  }
  static std::string text_of(const Place& place) { return text_of(place.rank, place.world_size); }

  void take(const std::optional<Place>& place) {
    if (!place) return;
    if (!out_.rank) {
      out_.launcher = place->launcher;
      out_.rank = place->rank;
      out_.world_size = place->world_size;
      out_.local_rank = place->local_rank;
    } else if (place->rank.value != out_.rank->value ||
               (out_.world_size && place->world_size.value != out_.world_size->value)) {
      remark(place->launcher + " disagrees: " + text_of(*place) + ", but first comes " +
             text_of(*out_.rank, out_.world_size));
    }
  }

  // The script that sbatch starts is no task: it is given the rank 0 of all the tasks that it may start.
  bool in_batch_script() {
    if (variables_("SLURM_JOB_ID").empty() || variables_("SLURM_PROCID").empty()) return false;
    if (!variables_("SLURM_STEP_ID").empty() || !variables_("SLURM_STEPID").empty()) return false;
    remark("SLURM_PROCID is not taken: without SLURM_STEP_ID this is the batch script, not a task of srun");
    return true;
  }

  std::optional<Found<std::uint32_t>> restarts() {
    const auto elastic = number({"TORCHELASTIC_RESTART_COUNT"}), slurm = number({"SLURM_RESTART_COUNT"});
    if (!elastic || !slurm || slurm->value == 0) return elastic ? elastic : slurm;
    // torchrun begins to count anew in a job that Slurm has queued again: a sum could be a number that was
    // there.
    return Found<std::uint32_t>{
        kRestartsOfTorchrun * slurm->value + elastic->value,
        std::to_string(kRestartsOfTorchrun) + " x " + slurm->variable + " + " + elastic->variable};
  }

  std::optional<Found<std::string>> launch() const {
    if (const std::string said = variables_("LAGGARD_LAUNCH"); !said.empty())
      return Found<std::string>{said, "LAGGARD_LAUNCH"};
    const auto known = launch_variables().find(out_.launcher);
    if (known == launch_variables().end()) return std::nullopt;
    Found<std::string> found;
    for (const std::string& name : known->second) {
      const std::string text = variables_(name);
      if (text.empty()) return std::nullopt;
      found.value += (found.value.empty() ? "" : ":") + text;
      found.variable += (found.variable.empty() ? "" : " and ") + name;
    }
    return found;
  }

  std::optional<Found<std::string>> run() {
    if (const std::string name = variables_("LAGGARD_RUN"); !name.empty())
      return Found<std::string>{name, "LAGGARD_RUN"};
    if (const std::string id = variables_("TORCHELASTIC_RUN_ID"); !id.empty() && id != "none")
      return Found<std::string>{id, "TORCHELASTIC_RUN_ID"};
    const std::vector<std::pair<std::string, std::string>> jobs{
        {"SLURM_JOB_NAME", "SLURM_JOB_ID"}, {"LSB_JOBNAME", "LSB_JOBID"}, {"PBS_JOBNAME", "PBS_JOBID"}};
    for (const auto& [name, id] : jobs) {
      if (variables_(id).empty()) continue;
      const std::string named = variables_(name);
      if (named.empty()) return Found<std::string>{"job-" + variables_(id), id};
      return Found<std::string>{named + "-" + variables_(id), name + " and " + id};
    }
    if (const std::string id = variables_("FLUX_JOB_ID"); !id.empty())
      return Found<std::string>{id, "FLUX_JOB_ID"};
    return std::nullopt;
  }

  void remark(std::string sentence) { out_.remarks.push_back(std::move(sentence)); }

  const Variables& variables_;
  Launch out_;
};

}  // namespace

Variables process_environment() {
  return [](const std::string& name) -> std::string {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? "" : value;
  };
}

std::optional<std::string> bad_run_name(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name.size() > limits::kMaxRunNameBytes)
    return "it is longer than " + std::to_string(limits::kMaxRunNameBytes) + " bytes";
  if (!is_utf8(name)) return "it is not UTF-8";
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::any_of(name.begin(), name.end(), is_control)) return "it holds a control character";
  if (name.find('@') != std::string_view::npos)
    return "it holds an @, which stands between a run and its attempt";
  return std::nullopt;
}

std::string usable_run_name(std::string_view name) {
  std::string usable = is_utf8(name) ? std::string(name) : escape_to_utf8(name);
  for (char& c : usable)
    if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte == 0x7f || byte == '@') c = '-';
  usable.resize(std::min(usable.size(), limits::kMaxRunNameBytes));
  while (!is_utf8(usable)) usable.pop_back();  // half a character
  return usable;
}

std::optional<std::uint32_t> parse_number(const std::string& text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Launch read_launch(const Variables& variables) { return Reader(variables).read(); }

}  // namespace laggard::agent
