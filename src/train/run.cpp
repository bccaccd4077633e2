#include "train/run.h"

#include <chrono>

#include "base/log.h"
#include "checkpoint/open_on_all.h"
#include "data/dataset.h"
#include "train/checkpointing.h"
#include "train/first_weights.h"
#include "train/profile.h"
#include "train/resume.h"
#include "train/run_report.h"
#include "train/run_saver.h"
#include "train/same_on_all.h"
#include "train/step_judge.h"
#include "train/step_metrics.h"
#include "train/stop.h"
#include "train/watchdog.h"

namespace strata::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Data {
  data::TrainingData train;
  std::string fingerprint;  // of train
  std::vector<data::ValidationData> validation;
};

Data open_data(const RunConfig& config) {
  const TrainingSection& t = config.training;
  data::TrainingData train(config.data, t.seq_length, std::uint64_t(config.run.seed), config.model.vocab_size,
                           t.iterations() * t.batch_size());
  std::string fingerprint = train.fingerprint();
  return {std::move(train), std::move(fingerprint),
          data::open_validation(config.data, t.seq_length, config.model.vocab_size)};
}

class Run {
 public:
  // folder: null but on the first rank, which alone speaks and writes.
  Run(const RunConfig& config, const std::vector<ValueOrigin>& origins, const Faults& faults,
      const comm::Mesh& mesh, Data data, RunFolder* folder, checkpoint::CheckpointStore& store,
      StopRequests& stop)
      : config_(config),
        faults_(faults),
        mesh_(mesh),
        data_(std::move(data)),
        folder_(folder),
        store_(store),
        stop_(stop),
        trainer_(config, device_, mesh),
        saver_(trainer_, store, origins, faults,
               [this](const std::string& line) {
                 if (folder_) log::error(line);
               }),
        profile_(trainer_, config.run.folder() + "/profile"),
        judge_(config.resilience),
        steps_(config.training.iterations()) {
    progress_.data = data_.fingerprint;
  }

  // Before start(): a new run's first weights.
  void load(const ModelSource& source) {
    load_first_weights(trainer_, source, [this](const std::string& line) {
      if (folder_) log::info(line);
    });
  }

  // Before start(): the state behind a checkpoint.
  void take_up(const checkpoint::Opened& from) {
    progress_ = restore(trainer_, from);
    progress_.data = data_.fingerprint;
    judge_.restore(progress_.losses);
    resumed_ = progress_.step;
  }

  void start(const std::optional<checkpoint::Opened>& from, const MemoryOutlook& memory) {
    if (!folder_) return;
    report_.emplace(trainer_, *folder_, progress_);
    report_->introduce(data_.train, memory);
    if (from) log::info(concat("goes on behind step ", progress_.step, ", from ", from->folder()));
  }

  void train() {
    const Clock::time_point start = Clock::now();
    const std::int64_t first = progress_.step;
    if (progress_.evaluation_due) {
      evaluate();
      resumed_ = -1;  // the checkpoint says it is due
    }
    while (progress_.step < steps_ && !stop_.on_any(mesh_, device_)) {
      const Clock::time_point begin = Clock::now();
      strike_before(faults_, progress_.step + 1, mesh_.world());
      profile_.begin(progress_.step + 1);
      const StepResult r = step();
      profile_.end();
      const double each = seconds_since(start) / double(progress_.step - first);
      if (report_)
        report_->step(r, progress_, closer_look_, seconds_since(begin),
                      each * double(steps_ - progress_.step));
      for (const std::string& line : profile_.finish(false)) log::info(line);
      check_skips(r);
      progress_.evaluation_due = is_due(config_.training.eval_interval) && !data_.validation.empty();
      if (progress_.evaluation_due) evaluate();
      const std::int64_t save_interval = config_.checkpoint.save_interval;
      if (save_interval > 0 && progress_.step % save_interval == 0) saver_.on_the_way(progress());
      strike_after(faults_, progress_.step);
    }
  }

  void conclude() {
    for (const std::string& line : profile_.finish(true)) log::info(line);
    saver_.at_the_end(progress(), resumed_);
    if (report_)
      report_->conclude(progress_, resumed_ == progress_.step,
                        stop_.reason().value_or("a signal to another rank"), store_.root());
  }

 private:
  bool is_due(std::int64_t interval) const {
    return progress_.step == steps_ || (interval > 0 && progress_.step % interval == 0);
  }

  // As it is to be saved.
  const Progress& progress() {
    progress_.updates = trainer_.optimizer().steps();
    progress_.losses = judge_.losses();
    return progress_;
  }

  StepResult step() {
    const std::int64_t rows = config_.training.batch_size();
    const HostBatch batch = data_.train.batch(progress_.samples, rows);
    StepResult r = observed_gradients(batch);
    strike_during(faults_, r, trainer_);
    const std::string fault = judge_.fault(r, [this](const std::string& line) {
      if (folder_) log::warn(line);
    });
    if (fault.empty()) {
      trainer_.update(r);
      progress_.skipped_in_a_row = 0;
      judge_.add(r);
    } else {
      pass_over(r, fault, batch);
    }
    progress_.step = r.step;
    progress_.samples += rows;
    progress_.tokens += r.tokens;
    return r;
  }

  // Gradients, with a closer look where the step is due for one.
  StepResult observed_gradients(const HostBatch& batch) {
    closer_look_.clear();
    const std::int64_t step = progress_.step + 1, interval = config_.logging.metrics_interval;
    if (interval == 0 || (step != 1 && step != steps_ && step % interval != 0))
      return trainer_.gradients(batch);
    StepObserver observer(device_);
    const StepResult r = trainer_.gradients(batch, &observer);
    append_expert_metrics(closer_look_, trainer_, config_);
    observer.join(mesh_);
    observer.append_to(closer_look_);
    append_memory_metrics(closer_look_, device_, mesh_.all());
    return r;
  }

  void pass_over(const StepResult& r, const std::string& fault, const HostBatch& batch) {
    trainer_.skip();
    ++progress_.skipped;
    ++progress_.skipped_in_a_row;
    if (folder_)
      log::warn(concat("step ", r.step, " is skipped: ", fault, "; its batch is in ",
                       folder_->record_skipped(r.step, batch)));
  }

  // Ends the run where going on makes no sense, on all ranks together; a save that is under way ends first,
  // since the first rank to leave ends the others.
  void check_skips(const StepResult& r) {
    const std::string why = judge_.end(r, progress_.skipped_in_a_row);
    if (why.empty()) return;
    saver_.settle();
    throw Error(why);
  }

  // Ranks that are asked to stop leave it before the same batch; then it stays due.
  void evaluate() {
    const std::int64_t rows = config_.training.batch_size();
    for (const data::ValidationData& set : data_.validation) {
      const auto e = train::evaluate(trainer_, set, config_.training.eval_iters * rows, rows,
                                     [&] { return !stop_.on_any(mesh_, device_); });
      if (!e) return;
      if (report_) report_->evaluation(progress_.step, set.name(), *e);
    }
    progress_.evaluation_due = false;
  }

  const RunConfig& config_;
  const Faults& faults_;
  const comm::Mesh& mesh_;
  Data data_;
  RunFolder* folder_;
  checkpoint::CheckpointStore& store_;
  StopRequests& stop_;
  device::Device device_;
  Trainer trainer_;
  RunSaver saver_;
  Profile profile_;
  StepJudge judge_;
  std::optional<RunReport> report_;  // on the first rank
  Metrics closer_look_;              // of the step in progress
  Progress progress_;
  std::int64_t steps_;
  std::int64_t resumed_ = -1;  // the step this process began behind
};

}  // namespace

void run(const RunConfig& config, const std::vector<ValueOrigin>& origins, const RunOptions& options,
         const comm::Mesh& mesh) {
  const Watchdog::Options watched{.seconds = config.resilience.watchdog_seconds,
                                  .grace = 1,
                                  .say = log::error,
                                  .last = options.last_resort};
  std::optional<Watchdog> watchdog;
  watchdog.emplace(mesh, watched, Watchdog::kStart);
  const bool first = mesh.world().rank() == 0;
  StopRequests stop(first ? std::optional(config.run.folder()) : std::nullopt,
                    first ? config.resilience.exit_duration_in_mins : std::nullopt);
  Data data = open_data(config);  // what is wrong with the data shows before the folder is touched
  if (mesh.shape().world() > 1) same_on_all(mesh.all(), reads(data.fingerprint, data.validation));
  std::optional<RunFolder> folder;
  if (first) folder.emplace(config);
  checkpoint::CheckpointStore store(config.checkpoint.folder(config.run.folder()), config.checkpoint.keep());
  std::optional<checkpoint::Opened> from;
  if (!options.overwrite)
    from = checkpoint::open_on_all(mesh.all(), [&] {
      return find_start(config, data.fingerprint, *folder, store, options.allow_changes, log::warn);
    });
  std::optional<ModelSource> source;
  if (!from) source = open_first_weights(config, store, options.overwrite);
  const MemoryOutlook memory = memory_outlook(config, mesh, device::host_memory_left());
  for (const std::string& line : memory.too_much) log::warn(line);
  Run r(config, origins, options.faults, mesh, std::move(data), folder ? &*folder : nullptr, store, stop);
  if (source) r.load(*source);
  if (from) r.take_up(*from);
  if (first) store.prepare();  // what is refused until here leaves nothing behind
  mesh.all().barrier("the start of the run");
  watchdog.emplace(mesh, watched);
  // Only now, with all memory at hand, is anything of an earlier run given up.
  if (first && options.overwrite) store.remove_all();
  if (first) folder->describe(config, origins);
  r.start(from, memory);
  r.train();
  r.conclude();
}

}  // namespace strata::train
