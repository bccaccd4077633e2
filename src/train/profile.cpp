#include "train/profile.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "train/profile_text.h"

namespace strata::train {
namespace {

// Ranks of one machine share its steady clock.
std::string machine() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

// What the others have to know of a rank: its clock when all began, its machine, its operations.
struct Account {
  std::int64_t zero = 0;
  std::string machine, starts;
};

std::string text_of(const Account& a) { return concat(a.zero, " ", a.machine, "\n", a.starts); }

Account account_of(const std::string& text) {
  Account a;
  std::istringstream stream(text);
  stream >> a.zero;
  std::getline(stream.ignore(1), a.machine);
  a.starts = text.substr(std::size_t(stream.tellg()));
  return a;
}

// Across machines the clocks are set by the moment at which all left the barrier.
std::int64_t ahead(const Account& other, const Account& mine) {
  const bool same = !mine.machine.empty() && other.machine == mine.machine;
  return same ? 0 : other.zero - mine.zero;
}

std::string bytes_of(const ProfileSums& sums) { return {reinterpret_cast<const char*>(&sums), sizeof sums}; }

ProfileSums sums_from(const std::string& bytes) {
  ProfileSums sums;
  static_assert(std::is_trivially_copyable_v<ProfileSums>);
  STRATA_CHECK(bytes.size() == sizeof sums, "a profile of ", bytes.size(), " bytes");
  std::memcpy(&sums, bytes.data(), sizeof sums);
  return sums;
}

// Empty, or what went wrong.
std::string write(const std::string& folder, const std::string& name, const std::string& text) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  std::ofstream file(folder + "/" + name, std::ios::binary);
  return (file << text).flush() ? "" : concat("cannot write ", folder, "/", name, ": ", std::strerror(errno));
}

}  // namespace

Profile::Profile(Trainer& trainer, std::string folder)
    : trainer_(trainer), config_(trainer.config().profile), folder_(std::move(folder)) {
  const int ranks = trainer.mesh().shape().world();
  if (!config_.steps || !config_.ranks) return;
  for (const std::int64_t rank : *config_.ranks)
    if (rank >= ranks)
      throw InputError(concat("profile.ranks names rank ", rank, ", but the run has ", ranks,
                              ranks == 1 ? " rank: 0" : concat(" ranks: 0 to ", ranks - 1)));
}

// All ranks watch, also those that are not told of: who waits for whom is known from both.
void Profile::watch(bool on) {
  if (on == watching_) return;
  watching_ = on;
  trainer_.device().compute().observe(on ? &timeline_ : nullptr);
  trainer_.observe(on ? &timeline_ : nullptr);
}

// From the first step to the last: what begins in one may end in the next.
void Profile::record(bool on) {
  if (on == recording_) return;
  recording_ = on;
  trainer_.mesh().world().record(on ? &timeline_ : nullptr);
}

void Profile::begin(std::int64_t step) {
  if (!config_.covers(step)) return;
  const bool first = timeline_.steps().empty();
  if (first) trainer_.optimizer().wait_for_values();
  trainer_.device().compute().synchronize();
  if (first) {
    trainer_.mesh().all().barrier("the start of the profile");
    zero_ = now();
    record(true);
  }
  watch(true);
  timeline_.begin_step(step);
}

void Profile::end() {
  if (!watching_) return;
  const bool last = timeline_.steps().back().step == config_.steps->back();
  if (last) trainer_.optimizer().wait_for_values();
  trainer_.device().compute().synchronize();
  timeline_.end_step();
  watch(false);
  if (last) record(false);
}

std::vector<std::string> Profile::finish(bool run_is_over) {
  if (told_ || timeline_.steps().empty()) return {};
  if (!run_is_over && timeline_.steps().back().step < config_.steps->back()) return {};
  told_ = true;
  record(false);
  return tell();
}

std::vector<std::string> Profile::tell() {
  const comm::Mesh& mesh = trainer_.mesh();
  const int rank = mesh.world().rank();
  const Account mine{zero_, machine(), timeline_.starts()};
  std::vector<std::string> starts;
  std::vector<std::int64_t> clocks;
  std::int64_t zero = zero_;  // the first rank's, by this rank's clock
  for (const std::string& text : comm::gather_texts(mesh.all(), text_of(mine))) {
    Account other = account_of(text);
    if (clocks.empty()) zero = other.zero - ahead(other, mine);
    clocks.push_back(ahead(other, mine));
    starts.push_back(std::move(other.starts));
  }
  timeline_.meet(starts, clocks);
  const bool asked = config_.names(rank);
  const std::string events = asked ? trace_events(timeline_, rank, mesh.position(), zero) : "";
  const auto all_events = comm::gather_texts(mesh.all(), events);
  const auto all_sums = comm::gather_texts(mesh.all(), bytes_of(asked ? sums_of(timeline_) : ProfileSums()));
  if (rank != 0) return {};
  std::vector<RankProfile> ranks;
  std::string joined;
  for (int r = 0; r < mesh.shape().world(); ++r) {
    if (!config_.names(r)) continue;
    ranks.push_back({r, mesh.position(r), sums_from(all_sums[r])});
    joined += (joined.empty() ? "" : ",\n") + all_events[r];
  }
  const std::int64_t first = timeline_.steps().front().step, last = timeline_.steps().back().step;
  std::vector<std::string> lines = profile_table(first, last, ranks);
  std::string fault = write(folder_, "timeline.json", "{\"traceEvents\": [\n" + joined + "\n]}\n");
  if (fault.empty()) fault = write(folder_, "summary.json", profile_json(first, last, ranks));
  lines.push_back(fault.empty() ? concat("profile: ", folder_, "/timeline.json opens in ui.perfetto.dev")
                                : fault);
  return lines;
}

}  // namespace strata::train
