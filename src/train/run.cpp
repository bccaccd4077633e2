#include "train/run.h"

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>

#include "base/config_changes.h"
#include "base/log.h"
#include "checkpoint/async_saver.h"
#include "checkpoint/open_on_all.h"
#include "kernels/jobs.h"
#include "train/checkpointing.h"
#include "train/evaluate.h"
#include "train/event_file.h"
#include "train/layout.h"
#include "train/metrics.h"
#include "train/model_source.h"
#include "train/profile.h"
#include "train/resume.h"
#include "train/run_text.h"
#include "train/step_judge.h"
#include "train/step_metrics.h"
#include "train/stop.h"
#include "train/throughput.h"
#include "train/watchdog.h"
#include "train/weights.h"

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

ModelSource open_loaded(const std::string& path) {
  try {
    return open_model(path);
  } catch (const InputError& e) {
    throw InputError(concat("checkpoint.load: ", e.what()));
  }
}

// What --overwrite removes cannot be started from: until the first save there would be no copy of it.
void check_kept(const ModelSource& source, const checkpoint::CheckpointStore& store) {
  for (const checkpoint::Entry& e : store.list())
    if (std::filesystem::equivalent(e.folder, source.folder))
      throw InputError(concat("checkpoint.load: ", source.folder, " is of the run that --overwrite removes; ",
                              "choose another run.name or run.output_dir, or copy it elsewhere"));
}

class Run {
 public:
  // folder: null but on the first rank, which alone speaks and writes.
  Run(const RunConfig& config, const std::vector<ValueOrigin>& origins, const RunOptions& options,
      const comm::Mesh& mesh, Data data, RunFolder* folder, checkpoint::CheckpointStore& store,
      StopRequests& stop)
      : config_(config),
        options_(options),
        mesh_(mesh),
        config_json_(config_json(config)),
        origins_json_(origins_json(origins)),
        data_(std::move(data)),
        folder_(folder),
        store_(store),
        stop_(stop),
        saver_(store, config.checkpoint.async_save, &mesh.all()),
        trainer_(config, device_, mesh),
        profile_(trainer_, config.run.folder() + "/profile"),
        judge_(config.resilience),
        steps_(config.training.iterations()) {}

  // Before start(): a new run's first weights.
  void load(const ModelSource& source) {
    check_residual(source);
    load_weights(trainer_.store(), source.weights, config_.model);
    info(concat("starts with the weights of ", source.text()));
    for (const ConfigChange& c : config_changes(config_json(source.config), source.folder, config_json_))
      if (c.path.starts_with("model."))
        info(concat("  ", c.path, " was ", c.before, " there and is ", c.after, " here"));
  }

  // Before start(): the state behind a checkpoint.
  void take_up(const checkpoint::Opened& from) {
    progress_ = restore(trainer_, from);
    judge_.restore(progress_.losses);
    resumed_ = progress_.step;
  }

  void start(const std::optional<checkpoint::Opened>& from) {
    if (!speaks()) return;
    throughput_.emplace(config_, mesh_.shape().world());
    metrics_.emplace(folder_->metrics_path(), progress_.step);
    if (config_.logging.tensorboard_dir)
      events_.emplace(folder_->inside(*config_.logging.tensorboard_dir), progress_.step);
    for (const std::string& line : introduction(config_, trainer_, data_.train)) log::info(line);
    log::info("speed: " + throughput_->text());
    if (from) log::info(concat("goes on behind step ", progress_.step, ", from ", from->folder()));
  }

  void train() {
    const Clock::time_point start = Clock::now();
    const std::int64_t first = progress_.step;
    if (progress_.evaluation_due) {
      evaluate();
      resumed_ = -1;  // the checkpoint says it is due
    }
    while (progress_.step < steps_ && !must_stop()) {
      const Clock::time_point begin = Clock::now();
      strike_before(options_.faults, progress_.step + 1, mesh_.world());
      profile_.begin(progress_.step + 1);
      const StepResult r = step();
      profile_.end();
      const std::int64_t done = progress_.step - first;
      report(r, seconds_since(begin), seconds_since(start) / double(done) * double(steps_ - progress_.step));
      for (const std::string& line : profile_.finish(false)) log::info(line);
      check_skips(r);
      progress_.evaluation_due = is_due(config_.training.eval_interval) && !data_.validation.empty();
      if (progress_.evaluation_due) evaluate();
      if (config_.checkpoint.save_interval > 0 && progress_.step % config_.checkpoint.save_interval == 0)
        save_on_the_way();
      if (options_.faults.kill_at_step.count(progress_.step)) std::raise(SIGKILL);
    }
  }

  void conclude() {
    for (const std::string& line : profile_.finish(true)) log::info(line);
    attempt([&] { saver_.finish(); });
    if (std::max(resumed_, saver_.durable_step()) != progress_.step) save();
    saver_.finish();
    if (!speaks()) return;
    if (progress_.step < steps_)
      log::info(concat("stopped by ", stop_.reason().value_or("a signal to another rank"), " after step ",
                       progress_.step, " of ", steps_, ", saved in ", store_.root(),
                       "; the same command goes on"));
    else
      log::info(concat(resumed_ == progress_.step ? "nothing is left to do: " : "", steps_,
                       " steps done, saved in ", store_.root(), skipped_text()));
    log::info(memory_line(device_));
    for (const auto& [why, count] : device_.read_backs())
      log::debug(concat("read back ", count, " times: ", why));
  }

 private:
  // Weights that do not fit because they are of another residual connection, in the words of the
  // configurations.
  void check_residual(const ModelSource& source) {
    const residual::Type is = source.config.model.residual.type, wanted = config_.model.residual.type;
    if (is == wanted) return;
    try {
      check_weights(trainer_.store(), source.weights);
    } catch (const InputError&) {
      throw InputError(
          concat("checkpoint.load: ", source.weights.path, ": these weights are of a model with residual ",
                 "connection ", name_of(is), " (config.json beside them), this one has ", name_of(wanted),
                 is == residual::Type::Vanilla ? "; strata checkpoint convert --residual changes it"
                                               : "; only those of a vanilla model can be converted"));
    }
  }

  bool speaks() const { return folder_ != nullptr; }
  void info(const std::string& line) const {
    if (speaks()) log::info(line);
  }
  void warn(const std::string& line) const {
    if (speaks()) log::warn(line);
  }

  // Whether any rank was asked to stop: all ranks learn it between the same two steps.
  bool must_stop() {
    const bool asked = stop_.reason().has_value();
    if (mesh_.shape().world() == 1) return asked;
    const Tensor any(device_, {1}, DType::Int64, device::Purpose::Data);
    from_host(device_, any, std::vector<std::int64_t>{asked});
    mesh_.all().all_reduce(device_.compute(), any, "stop requests").wait(device_.compute());
    return to_host_int(device_, any, "stop requests").at(0) > 0;
  }

  bool is_due(std::int64_t interval) const {
    return progress_.step == steps_ || (interval > 0 && progress_.step % interval == 0);
  }

  StepResult step() {
    const std::int64_t rows = config_.training.batch_size();
    const HostBatch batch = data_.train.batch(progress_.samples, rows);
    StepResult r = observed_gradients(batch);
    inject(r);
    const std::string fault = judge_.fault(r, [this](const std::string& line) { warn(line); });
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

  void inject(StepResult& r) {
    const Faults& f = options_.faults;
    if (f.nan_at_step.count(r.step)) {
      device_.compute().run(
          kernels::Fill{.y = trainer_.store().buckets().front().grad.slice(0, 1), .value = NAN});
      r.grad_norm = trainer_.grad_norm();
    }
    if (f.spike_at_step.count(r.step)) r.loss += 1000, r.lm_loss += 1000;
    if (f.term_at_step.count(r.step)) std::raise(SIGTERM);
  }

  void pass_over(const StepResult& r, const std::string& fault, const HostBatch& batch) {
    trainer_.skip();
    ++progress_.skipped;
    ++progress_.skipped_in_a_row;
    if (speaks())
      log::warn(concat("step ", r.step, " is skipped: ", fault, "; its batch is in ",
                       folder_->record_skipped(r.step, batch)));
  }

  // Ends the run where going on makes no sense, on all ranks together; a save that is under way ends first,
  // since the first rank to leave ends the others.
  void check_skips(const StepResult& r) {
    const std::string why = judge_.end(r, progress_.skipped_in_a_row);
    if (why.empty()) return;
    attempt([&] { saver_.finish(); });
    throw Error(why);
  }

  void report(const StepResult& r, double seconds, double left) {
    if (!speaks()) return;
    const double rate = double(r.tokens) / seconds;
    Metrics values{{"lm loss", r.lm_loss},
                   {"load_balancing_loss", r.aux_loss},
                   {"mtp loss", r.mtp_loss},
                   {"grad norm", r.grad_norm},
                   {"learning rate", r.learning_rate},
                   {"consumed samples", double(progress_.samples)},
                   {"tokens", double(progress_.tokens)},
                   {"tokens per second", rate},
                   {"throughput (TFLOP/s)", throughput_->flops(rate) / 1e12},
                   {"elapsed time per iteration (ms)", 1e3 * seconds}};
    const std::optional<double> share = throughput_->share(rate);
    if (share) values.emplace_back("share of peak", *share);
    if (progress_.skipped > 0) values.emplace_back("skipped iterations", double(progress_.skipped));
    values.insert(values.end(), closer_look_.begin(), closer_look_.end());
    write(r.step, values);
    if (r.step == 1 || is_due(config_.logging.log_interval))
      log::info(progress_line(r, steps_, rate, share, left));
  }

  void write(std::int64_t step, const Metrics& values) {
    Metrics line{{"iteration", double(step)}};
    line.insert(line.end(), values.begin(), values.end());
    metrics_->write(line);
    if (events_) events_->write(step, values);
  }

  void evaluate() {
    const std::int64_t rows = config_.training.batch_size(), step = progress_.step;
    for (const data::ValidationData& set : data_.validation) {
      const auto e = train::evaluate(trainer_, set, config_.training.eval_iters * rows, rows,
                                     [&] { return !must_stop(); });
      if (!e) return;
      if (!speaks()) continue;
      const std::string name = "lm loss validation " + set.name();
      Metrics values{{name, e->loss}, {name + " PPL", std::exp(e->loss)}};
      std::string line = format("step %lld  %s %.4f", (long long)step, name.c_str(), e->loss);
      if (e->bits_per_byte) {
        values.emplace_back("bits per byte validation " + set.name(), *e->bits_per_byte);
        line += format(", %.4f bits per byte", *e->bits_per_byte);
      }
      write(step, values);
      log::info(line);
    }
    progress_.evaluation_due = false;
  }

  void save() {
    checkpoint::SaveFaults faults;
    const Faults& f = options_.faults;
    if (f.term_at_save)
      faults.before_call = [left = *f.term_at_save](std::string_view, const std::string&) mutable {
        if (--left == 0) std::raise(SIGTERM);
      };
    if (f.kill_at_save) faults.kill_at_call = *f.kill_at_save - 1;
    if (f.full_at_save) faults.full_after_bytes = *f.full_at_save;
    faults.flip_bit = f.bitflip_at_checkpoint.count(progress_.step) > 0;
    store_.set_faults(faults);
    progress_.updates = trainer_.optimizer().steps();
    progress_.data = data_.fingerprint;
    progress_.losses = judge_.losses();
    saver_.save(capture(trainer_, progress_, config_json_, origins_json_));
  }

  // A save that failed is no reason to stop a run that may still end well; a rank that failed is.
  template <class Action>
  void attempt(Action&& action) {
    try {
      action();
    } catch (const Error& e) {
      if (!mesh_.world().failure().empty()) throw;
      if (speaks()) log::error(concat(e.what(), "; the run goes on, the next save tries again"));
    }
  }

  void save_on_the_way() {
    attempt([&] { saver_.finish(); });
    attempt([&] { save(); });
  }

  std::string skipped_text() const {
    return progress_.skipped == 0 ? "" : concat(", ", progress_.skipped, " of them skipped");
  }

  const RunConfig& config_;
  const RunOptions& options_;
  const comm::Mesh& mesh_;
  std::string config_json_, origins_json_;
  Data data_;
  RunFolder* folder_;
  checkpoint::CheckpointStore& store_;
  StopRequests& stop_;
  checkpoint::AsyncSaver saver_;
  std::optional<MetricsSink> metrics_;
  std::optional<EventFile> events_;  // TensorBoard's
  Metrics closer_look_;              // of the step in progress
  std::optional<Throughput> throughput_;
  device::Device device_;
  Trainer trainer_;
  Profile profile_;
  StepJudge judge_;
  Progress progress_;
  std::int64_t steps_;
  std::int64_t resumed_ = -1;  // the step this process began behind
};

}  // namespace

void run(const RunConfig& config, const std::vector<ValueOrigin>& origins, const RunOptions& options,
         comm::World& world) {
  const comm::Mesh mesh(world, mesh_shape(config, world.size()));
  const bool first = world.rank() == 0;
  StopRequests stop(first ? std::optional(config.run.folder()) : std::nullopt,
                    first ? config.resilience.exit_duration_in_mins : std::nullopt);
  Data data = open_data(config);  // what is wrong with the data shows before the folder is touched
  std::optional<RunFolder> folder;
  if (first) folder.emplace(config);
  checkpoint::CheckpointStore store(config.checkpoint.folder(config.run.folder()), config.checkpoint.keep());
  std::optional<checkpoint::Opened> from;
  if (!options.overwrite)
    from = checkpoint::open_on_all(mesh.all(), [&] {
      return find_start(config, data.fingerprint, *folder, store, options.allow_changes, log::warn);
    });
  std::optional<ModelSource> source;
  if (!from && config.checkpoint.load) source = open_loaded(*config.checkpoint.load);
  if (source && options.overwrite) check_kept(*source, store);
  Run r(config, origins, options, mesh, std::move(data), folder ? &*folder : nullptr, store, stop);
  if (source) r.load(*source);
  if (from) r.take_up(*from);
  mesh.all().barrier("the start of the run");
  // From here on: before, one rank may look at a large checkpoint for as long as it takes.
  const Watchdog watchdog(mesh, {.seconds = config.resilience.watchdog_seconds,
                                 .grace = 1,
                                 .say = log::error,
                                 .last = options.last_resort});
  // Only now, with all memory at hand, is anything of an earlier run given up.
  if (first && options.overwrite) store.remove_all();
  if (first) folder->describe(config, origins);
  r.start(from);
  r.train();
  r.conclude();
}

}  // namespace strata::train
