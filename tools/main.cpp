// strata: parses the command line, runs one command, turns errors into one sentence and an exit status:
// 0 done, 1 the run failed, 2 bad usage or bad input. The only user of CLI11.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <new>

#include "base/error.h"
#include "base/field_text.h"
#include "base/log.h"
#include "tools/commands.h"
#include "tools/launch.h"
#include "train/faults.h"

namespace strata::tools {
namespace {

constexpr const char* kVersion = "strata 0.1.0";
constexpr const char* kOverrideHelp =
    "override a key of the configuration, as in --set optimizer.lr=3e-4; repeatable";

struct Arguments {
  TrainArguments train;
  TraceArguments trace;
  ConfigCommandArguments config;
  VerifyLayoutArguments verify_layout;
  PlanArguments plan;
  ScheduleArguments schedule;
  BenchArguments bench;
  GenerateArguments generate;
  EvalArguments eval;
  PrepareArguments prepare;
  PlotArguments plot;
  CheckpointArguments checkpoint;
  ConvertArguments convert;
};

void add_overrides(CLI::App* command, ConfigArguments& config) {
  command->add_option("--set", config.overrides, kOverrideHelp)
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

CLI::Option* add_switch(CLI::App* command, const std::string& name, bool& value, const std::string& help) {
  return command->add_flag(name, value, help)->disable_flag_override();
}

void add_train(CLI::App& app, TrainArguments& a) {
  CLI::App* c = app.add_subcommand("train", "train a model");
  c->add_option("CONFIG", a.config.file, "configuration file (JSON)")->required()->type_name("");
  add_overrides(c, a.config);
  add_switch(c, "--overwrite", a.overwrite,
             "start anew: remove what an earlier run left in the run's folder, checkpoints too");
  add_switch(c, "--override", a.override_changes,
             "go on from the newest checkpoint although hyper-parameters or data have changed");
  c->add_option("--inject", a.inject, "faults to survive, for tests; repeatable: " + train::fault_reference())
      ->type_name("FAULT")
      ->allow_extra_args(false);
  add_switch(c, "--verbose", a.verbose, "debug messages too");
}

// "" or why the text is not one.
std::string tolerance_fault(const std::string& text) {
  double r = NAN;
  return CLI::detail::lexical_cast(text, r) && r >= 0 && std::isfinite(r) ? std::string()
                                                                          : text + " is not a number from 0";
}

void add_trace(CLI::App& app, TraceArguments& a) {
  CLI::App* c = app.add_subcommand(
      "trace", "one batch through the model, everything visible: losses, logits, gradients, trained weights");
  c->add_option("--config", a.config.file, "configuration file (JSON)")->required()->type_name("FILE");
  c->add_option("--weights", a.weights, "weights of the model (safetensors)")->required()->type_name("FILE");
  c->add_option("--batch", a.batch, "input_ids, labels, optional doc_ids: I64 [B, T] (safetensors)")
      ->required()
      ->type_name("FILE");
  add_overrides(c, a.config);
  c->add_option("--out", a.out, "file to write (safetensors); required without --compare")->type_name("FILE");
  c->add_option("--steps", a.steps, "optimizer steps on the same batch")
      ->check(CLI::Range(std::int64_t(0), std::int64_t(1000000)))
      ->type_name("N");
  CLI::Option* compare =
      c->add_option("--compare", a.compare,
                    "reference to compare with (safetensors); exit status 1 beyond tolerance")
          ->type_name("FILE");
  c->add_option("--tolerance", a.tolerance, "one tolerance for all tensors, instead of one for each kind")
      ->check(tolerance_fault, "")
      ->needs(compare);
  c->final_callback([&a] {
    if (a.out.empty() && a.compare.empty()) throw CLI::ValidationError("--out or --compare is required");
  });
}

void add_config(CLI::App& app, ConfigCommandArguments& a) {
  CLI::App* c =
      app.add_subcommand("config", "print a configuration with who gave each value, or list all keys");
  CLI::Option* file = c->add_option("CONFIG", a.config.file, "configuration file (JSON)")->type_name("");
  add_overrides(c, a.config);
  CLI::Option* json = add_switch(c, "--json", a.json, "print JSON that loads back");
  add_switch(c, "--reference", a.reference, "list every key with type, default and meaning")
      ->excludes(file)
      ->excludes("--set")
      ->excludes(json);
  c->final_callback([&a] {
    if (a.config.file.empty() && !a.reference)
      throw CLI::ValidationError("CONFIG or --reference is required");
  });
}

void add_verify_layout(CLI::App& app, VerifyLayoutArguments& a) {
  CLI::App* c = app.add_subcommand(
      "verify-layout",
      "train some steps on one rank and on several, and compare; exit status 1 if they differ");
  c->add_option("CONFIG", a.config.file, "configuration file (JSON)")->required()->type_name("");
  add_overrides(c, a.config);
  c->add_option("--layouts", a.layouts,
                "what to compare with one rank: keys pp, v, ep, dp, schedule, mbs, as in "
                "\"pp=2,v=2;ep=2,dp=4\"; the ranks are threads")
      ->required()
      ->type_name("LIST");
  c->add_option("--steps", a.steps, "training steps; 3 if not given")
      ->check(CLI::Range(std::int64_t(1), std::int64_t(1000000)))
      ->type_name("N");
  c->add_option("--tolerance", a.tolerance,
                "largest relative difference of a tensor; if not given, 1e-9 in float64, 1e-4 in float32")
      ->check(tolerance_fault, "")
      ->type_name("R");
  add_switch(c, "--json", a.json, "print JSON");
}

CLI::Option* add_world(CLI::App* command, std::optional<int>& world) {
  return command->add_option("--world", world, "ranks in all; as few as parallel allows if not given")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
}

void add_plan(CLI::App& app, PlanArguments& a) {
  CLI::App* c = app.add_subcommand(
      "plan", "count parameters, memory, operations and messages of a run before anything is allocated");
  c->add_option("CONFIG", a.config.file, "configuration file (JSON)")->required()->type_name("");
  add_overrides(c, a.config);
  CLI::Option* world = add_world(c, a.world);
  c->add_option("--layouts", a.layouts,
                "several layouts side by side instead: keys pp, v, ep, dp, schedule, mbs, as in "
                "\"pp=2;ep=2,dp=4\"")
      ->excludes(world)
      ->type_name("LIST");
  add_switch(c, "--json", a.json, "print JSON");
}

void add_schedule(CLI::App& app, ScheduleArguments& a) {
  CLI::App* c = app.add_subcommand(
      "schedule", "print a pipeline schedule: what each rank does when, its bubble, what ranks hold");
  CLI::Option* file =
      c->add_option("CONFIG", a.config.file, "configuration file (JSON), instead of the four options below")
          ->type_name("");
  c->add_option("--set", a.config.overrides, kOverrideHelp)
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->needs(file);
  add_world(c, a.world)->needs(file);
  const auto add_count = [&](const char* name, int& value, int most, const char* help) {
    return c->add_option(name, value, help)->check(CLI::Range(1, most))->type_name("N");
  };
  CLI::Option* kind =
      c->add_option("--schedule", a.schedule, "gpipe, 1f1b, interleaved or zero_bubble")->type_name("NAME");
  CLI::Option* ranks = add_count("--pipeline", a.pipeline, 1024, "ranks of the pipeline");
  CLI::Option* stages = add_count("--virtual", a.virtual_stages, 26, "stages of each rank; 1 if not given");
  CLI::Option* count = add_count("--micro-batches", a.micro_batches, 1 << 20, "micro-batches of a step");
  add_switch(c, "--json", a.json, "print JSON");
  // Not by excludes(): a word behind a misspelt option would be taken for CONFIG.
  c->final_callback([=] {
    for (const CLI::Option* other : {kind, ranks, stages, count})
      if (!file->empty() && !other->empty())
        throw CLI::ValidationError("CONFIG excludes " + other->get_name());
    for (const CLI::Option* needed : {kind, ranks, count})
      if (file->empty() && needed->empty())
        throw CLI::ValidationError(needed->get_name() + " or CONFIG is required");
  });
}

void add_bench(CLI::App& app, BenchArguments& a) {
  CLI::App* c = app.add_subcommand("bench", "time training steps against this machine's own peaks");
  c->require_subcommand(1);
  const auto add = [&](const char* name, const char* help) {
    CLI::App* one = c->add_subcommand(name, help);
    one->add_option("CONFIG", a.config.file, "configuration file (JSON)")->required()->type_name("");
    add_overrides(one, a.config);
    one->add_option("--steps", a.steps, "timed steps, after one that is not; 3 if not given")
        ->check(CLI::Range(std::int64_t(1), std::int64_t(1000000)))
        ->type_name("N");
    add_switch(one, "--json", a.json, "print JSON");
    return one;
  };
  CLI::App* step = add("step", "whole steps, split by job and by phase");
  step->add_option("--residual", a.residuals, "residual connections to time the model with, in a list")
      ->delimiter(',')
      ->type_name("TYPES");
  step->add_option("--precision", a.precisions, "precisions to time it in, in a list")
      ->delimiter(',')
      ->type_name("TYPES");
  add("ops", "every job at the model's sizes: time, operations, bytes, share of the peak that binds it");
  add("compare", "two configurations in turns: the ratio of their steps with its spread")
      ->add_option("OTHER", a.other, "second configuration file (JSON)")
      ->required()
      ->type_name("");
}

void add_model(CLI::App* c, ModelArguments& a) {
  CLI::Option* file =
      c->add_option("--config", a.config.file, "configuration file (JSON)")->type_name("FILE");
  CLI::Option* weights =
      c->add_option("--weights", a.weights, "weights of the model (safetensors)")->type_name("FILE");
  file->needs(weights);
  weights->needs(file);
  c->add_option("--checkpoint", a.checkpoint,
                "instead of both: a checkpoint, or the newest in a folder of them or of a run")
      ->excludes(file)
      ->excludes(weights)
      ->type_name("FOLDER");
}

void require_model(const ModelArguments& a) {
  if (a.checkpoint.empty() && a.weights.empty())
    throw CLI::ValidationError("--checkpoint, or --config and --weights, is required");
}

void add_generate(CLI::App& app, GenerateArguments& a) {
  const auto is_whole = [](const std::string& text) {
    std::uint64_t n = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    return error == std::errc() && stop == text.data() + text.size() ? ""
                                                                     : text + " is not a whole number from 0";
  };
  CLI::App* c = app.add_subcommand("generate", "write on from a prompt");
  add_model(c, a);
  add_overrides(c, a.config);
  CLI::Option* prompt = c->add_option("--prompt", a.prompt, "text to go on from")->type_name("TEXT");
  c->add_option("--prompt-file", a.prompt_file, "file that holds it")->excludes(prompt)->type_name("FILE");
  c->add_option("--max-new-tokens", a.max_new_tokens, "stop after so many; 128 if not given")
      ->check(CLI::Range(std::int64_t(1), std::int64_t(1) << 40))
      ->type_name("N");
  c->add_option("--temperature", a.temperature,
                "divides the logits, 1 if not given; 0: the most probable token")
      ->type_name("R");
  c->add_option("--top-k", a.top_k, "choose among so many most probable tokens; 0: all")
      ->check(is_whole, "")
      ->type_name("N");
  c->add_option("--top-p", a.top_p, "choose among the most probable tokens that hold this share; 1: all")
      ->type_name("R");
  c->add_option("--seed", a.seed, "the same seed gives the same text; 0 if not given")
      ->check(is_whole, "")
      ->type_name("N");
  add_switch(c, "--json", a.json, "print text, token ids and times as JSON");
  c->final_callback([&a] {
    require_model(a);
    if (!a.prompt && a.prompt_file.empty())
      throw CLI::ValidationError("--prompt or --prompt-file is required");
  });
}

void add_eval(CLI::App& app, EvalArguments& a) {
  CLI::App* c = app.add_subcommand("eval", "loss, perplexity and bits per byte on validation sets");
  add_model(c, a);
  add_overrides(c, a.config);
  c->add_option("--data", a.data,
                "token files to evaluate on, or a name of data.validation alone; repeatable; without it, all "
                "of data.validation")
      ->type_name("NAME=PREFIX")
      ->allow_extra_args(false);
  c->add_option("--iters", a.iterations,
                "batches of a set, as training.eval_iters; the whole set if not given")
      ->check(CLI::Range(std::int64_t(1), std::int64_t(1) << 40))
      ->type_name("N");
  add_switch(c, "--json", a.json, "print JSON");
  c->final_callback([&a] { require_model(a); });
}

void add_prepare(CLI::App& app, PrepareArguments& a) {
  CLI::App* c = app.add_subcommand("prepare", "turn text and JSONL files into a token file to train on");
  c->add_option("INPUT", a.inputs, "files: .txt is one document, .jsonl has one a line")
      ->required()
      ->type_name("");
  c->add_option("--output", a.output, "prefix of the .bin and .idx to write (Megatron's format)")
      ->required()
      ->type_name("PREFIX");
  c->add_option("--tokenizer", a.tokenizer, "how text becomes token ids: byte")->type_name("NAME");
  c->add_option("--jsonl-key", a.jsonl_key, "key of the text in a line of JSONL; \"text\" if not given")
      ->type_name("KEY");
  c->add_flag("--append-eod,!--no-append-eod", a.append_eod,
              "end each document with the end-of-document token (as without either), or do not");
  c->add_option("--workers", a.workers, "threads; 0: one a core")
      ->check(CLI::Range(std::int64_t(0), std::int64_t(1024)))
      ->type_name("N");
  add_switch(c, "--overwrite", a.overwrite, "replace files that are there");
}

void add_plot(CLI::App& app, PlotArguments& a) {
  CLI::App* c = app.add_subcommand("plot", "draw a run, or several against each other, as one HTML file");
  c->add_option("RUN", a.runs, "folders of runs, or files of metrics (JSONL)")->required()->type_name("");
  c->add_option("--out", a.out, "file to write (HTML)")->required()->type_name("FILE");
}

CLI::App* add_checkpoint(CLI::App& app, CheckpointArguments& a) {
  CLI::App* c =
      app.add_subcommand("checkpoint", "look into checkpoints, check that they are whole, convert models");
  c->require_subcommand(1);
  CLI::App* inspect =
      c->add_subcommand("inspect", "print what is in it: tensors, shapes, types, configuration");
  inspect->add_option("PATH", a.path, "checkpoint, folder of checkpoints, run's folder, or safetensors file")
      ->required()
      ->type_name("");
  add_switch(inspect, "--json", a.json, "print JSON");
  CLI::App* verify = c->add_subcommand("verify", "compare sizes and checksums; exit status 1 if damaged");
  verify->add_option("PATH", a.path, "checkpoint, folder of checkpoints, or run's folder")
      ->required()
      ->type_name("");
  return c;
}

void add_convert(CLI::App* checkpoint, ConvertArguments& a) {
  CLI::App* c = checkpoint->add_subcommand(
      "convert",
      "a model with other residual connections that computes the same, or to and from Hugging Face");
  c->add_option("FROM", a.from,
                "checkpoint, run's folder, converted model, or Hugging Face model (deepseek_v3, v2)")
      ->required()
      ->type_name("");
  c->add_option("--to", a.to, "folder to write")->required()->type_name("FOLDER");
  c->add_option("--format", a.format, "strata (as without it) or huggingface")
      ->check(CLI::IsMember({"strata", "huggingface"}))
      ->type_name("NAME");
  c->add_option("--residual", a.residual,
                "residual connections to give a vanilla model, as in model.residual.type; --set "
                "model.residual.KEY=VALUE sets more of them")
      ->type_name("TYPE");
  c->add_option("--set", a.overrides, "set a key of the result, of those that change no logit; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  CLI::Option* dtype =
      c->add_option("--dtype", a.dtype, "of weights for huggingface: float32 (as without it) or bfloat16")
          ->check(CLI::IsMember({"float32", "bfloat16"}))
          ->type_name("NAME");
  CLI::Option* shard =
      c->add_option("--max-shard-gb", a.max_shard_gb, "largest file for huggingface; 5 if not given")
          ->type_name("GB");
  add_switch(c, "--overwrite", a.overwrite, "replace a converted model that is there");
  c->final_callback([&a, dtype, shard] {
    if (!(a.max_shard_gb > 0)) throw CLI::ValidationError("--max-shard-gb: a number above 0 is needed");
    if (a.format != "huggingface" && (!dtype->empty() || !shard->empty()))
      throw CLI::ValidationError("--dtype and --max-shard-gb need --format huggingface");
  });
}

std::string nearest(const std::vector<std::string>& names, const std::string& word) {
  return *std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return edit_distance(a, word) < edit_distance(b, word);
  });
}

// A word that is no command is answered with the nearest one.
void check_command(const CLI::App& app, int words, char** argv) {
  const std::vector<const CLI::App*> commands = app.get_subcommands({});
  if (commands.empty() || words < 1 || argv[0][0] == '-') return;
  const std::string word = argv[0];
  std::vector<std::string> names;
  for (const CLI::App* c : commands) {
    if (c->get_name() == word) return check_command(*c, words - 1, argv + 1);
    names.push_back(c->get_name());
  }
  const std::string of = app.get_parent() ? concat(app.get_name(), ": ") : "";
  throw InputError(concat(of, "\"", word, "\" is not a command, nearest is ", nearest(names, word),
                          ", there are ", join(names, ", ")));
}

// An unknown option is answered with the nearest.
std::string not_an_option(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& long_name : option->get_lnames()) names.push_back("--" + long_name);
  return concat(word, " is not an option, nearest is ", nearest(names, word), ", there are ",
                join(names, ", "));
}

// CLI11's complaint as a sentence that begins with the command.
std::string complaint(const CLI::App& app, const CLI::ParseError& e) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    const std::vector<std::string> words = app.remaining();
    if (!words.empty() && words[0].starts_with("-")) return not_an_option(app, words[0]);
    return concat(e.what(), ", see strata --help");
  }
  const auto inner = chosen.front()->get_subcommands();  // of "checkpoint inspect"
  const CLI::App& command = inner.empty() ? *chosen.front() : *inner.front();
  const std::string name = chosen.front()->get_name() + (inner.empty() ? "" : " " + command.get_name());
  const std::vector<std::string> extra = app.remaining(true);
  if (dynamic_cast<const CLI::ConversionError*>(&e))
    return concat(name, ": ", e.what(), ", a number is needed");
  if (!dynamic_cast<const CLI::ExtrasError*>(&e) || extra.empty()) return concat(name, ": ", e.what());
  const std::string& word = extra.front();
  if (!word.starts_with("-")) return concat(name, ": nothing is expected where \"", word, "\" stands");
  return concat(name, ": ", not_an_option(command, word));
}

int run(int argc, char** argv) {
  CLI::App app("Pre-trains DeepSeekMoE-style Transformers with a choice of residual connections.", "strata");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  app.footer(
      "strata COMMAND --help describes a command. Exit status: 0 done, 1 the run failed, 2 bad usage or "
      "input.");
  Arguments a;
  add_train(app, a.train);
  add_trace(app, a.trace);
  add_config(app, a.config);
  add_verify_layout(app, a.verify_layout);
  add_plan(app, a.plan);
  add_schedule(app, a.schedule);
  add_bench(app, a.bench);
  add_generate(app, a.generate);
  add_eval(app, a.eval);
  add_convert(add_checkpoint(app, a.checkpoint), a.convert);
  add_prepare(app, a.prepare);
  add_plot(app, a.plot);
  check_command(app, argc - 1, argv + 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return launched_rank() == 0 ? app.exit(e) : 0;
  } catch (const CLI::ParseError& e) {
    throw InputError(complaint(app, e));
  }
  if (a.train.verbose) log::setup(log::Level::Debug);
  if (app.got_subcommand("train")) return train(a.train);
  if (app.got_subcommand("trace")) return trace(a.trace);
  if (app.got_subcommand("eval")) return eval(a.eval);
  if (launched_rank() > 0) return 0;  // all others are one rank's work
  if (app.got_subcommand("config")) return config(a.config);
  if (app.got_subcommand("verify-layout")) return verify_layout(a.verify_layout);
  if (app.got_subcommand("schedule")) return schedule(a.schedule);
  if (app.got_subcommand("generate")) return generate(a.generate);
  if (app.got_subcommand("prepare")) return prepare(a.prepare);
  if (app.got_subcommand("plot")) return plot(a.plot);
  if (const CLI::App* c = app.get_subcommand("bench"); c->parsed()) {
    if (c->got_subcommand("compare")) return bench_compare(a.bench);
    return c->got_subcommand("ops") ? bench_ops(a.bench) : bench_step(a.bench);
  }
  if (const CLI::App* c = app.get_subcommand("checkpoint"); c->parsed()) {
    if (c->got_subcommand("convert")) return convert(a.convert);
    return c->got_subcommand("inspect") ? inspect_checkpoint(a.checkpoint) : verify_checkpoint(a.checkpoint);
  }
  return plan(a.plan);
}

}  // namespace
}  // namespace strata::tools

int main(int argc, char** argv) {
  strata::log::setup();
  try {
    const int status = strata::tools::run(argc, argv);
    if (!std::cout.flush() || std::fflush(stdout) != 0)
      throw strata::Error("cannot write to standard output");
    return status;
  } catch (const strata::InputError& e) {
    std::cerr << "strata: " + strata::tools::speaker() + e.what() + '\n';
    return 2;
  } catch (const std::bad_alloc&) {
    std::cerr
        << "strata: " + strata::tools::speaker() +
               "out of memory; a smaller model, training.micro_batch_size or training.global_batch_size "
               "needs less\n";
    return 1;
  } catch (const std::exception& e) {
    std::cerr << "strata: " + strata::tools::speaker() + e.what() + '\n';
    return 1;
  }
}
