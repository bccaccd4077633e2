// strata: parses the command line, runs one command, turns errors into one sentence and an exit status:
// 0 done, 1 the run failed, 2 bad usage or bad input. The only user of CLI11.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "base/error.h"
#include "base/field_text.h"
#include "base/log.h"
#include "tools/commands.h"

namespace strata::tools {
namespace {

constexpr const char* kVersion = "strata 0.1.0";
constexpr const char* kOverrideHelp =
    "override a key of the configuration, as in --set optimizer.lr=3e-4; repeatable";

struct Arguments {
  TrainArguments train;
  TraceArguments trace;
  ConfigCommandArguments config;
  PlanArguments plan;
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
  add_switch(c, "--overwrite", a.overwrite, "replace what an earlier run left in the run's folder");
  add_switch(c, "--verbose", a.verbose, "debug messages too");
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
  const auto is_tolerance = [](const std::string& text) {
    double r = NAN;
    return CLI::detail::lexical_cast(text, r) && r >= 0 ? std::string() : text + " is not a number from 0";
  };
  c->add_option("--tolerance", a.tolerance, "one tolerance for all tensors, instead of one for each kind")
      ->check(is_tolerance, "")
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

void add_plan(CLI::App& app, PlanArguments& a) {
  CLI::App* c = app.add_subcommand("plan", "count the parameters of a model before anything is allocated");
  c->add_option("CONFIG", a.config.file, "configuration file (JSON)")->required()->type_name("");
  add_overrides(c, a.config);
  add_switch(c, "--json", a.json, "print JSON");
}

std::string nearest(const std::vector<std::string>& names, const std::string& word) {
  return *std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return edit_distance(a, word) < edit_distance(b, word);
  });
}

// A word that is no command is answered with the nearest one.
void check_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* c : app.get_subcommands({})) names.push_back(c->get_name());
  if (std::find(names.begin(), names.end(), word) != names.end()) return;
  throw InputError(concat("\"", word, "\" is not a command, nearest is ", nearest(names, word),
                          ", there are ", join(names, ", ")));
}

// CLI11's complaint as a sentence that begins with the command; an unknown option is answered with the
// nearest.
std::string complaint(const CLI::App& app, const CLI::ParseError& e) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) return concat(e.what(), ", see strata --help");
  const CLI::App& command = *chosen.front();
  const std::vector<std::string> extra = app.remaining(true);
  if (!dynamic_cast<const CLI::ExtrasError*>(&e) || extra.empty())
    return concat(command.get_name(), ": ", e.what());
  const std::string& word = extra.front();
  if (!word.starts_with("-"))
    return concat(command.get_name(), ": nothing is expected where \"", word, "\" stands");
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return concat(command.get_name(), ": ", word, " is not an option, nearest is ", nearest(names, word),
                ", there are ", join(names, ", "));
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
  add_plan(app, a.plan);
  if (argc > 1 && argv[1][0] != '-') check_command(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    throw InputError(complaint(app, e));
  }
  if (a.train.verbose) log::setup(log::Level::Debug);
  if (app.got_subcommand("train")) return train(a.train);
  if (app.got_subcommand("trace")) return trace(a.trace);
  if (app.got_subcommand("config")) return config(a.config);
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
    std::cerr << "strata: " << e.what() << '\n';
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "strata: " << e.what() << '\n';
    return 1;
  }
}
