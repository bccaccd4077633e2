#include "tools/command_line.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/field_text.h"
#include "tools/launcher.h"
#include "tools/nearest.h"

namespace strata::tools {
namespace {

// The innermost command that was named, or the app itself.
const CLI::App& chosen(const CLI::App& app) {
  const auto named = app.get_subcommands();
  return named.empty() ? app : chosen(*named.front());
}

// "checkpoint inspect"; "" for the app itself.
std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  if (!parent) return {};
  return parent->get_parent() ? concat(full_name(*parent), " ", command.get_name()) : command.get_name();
}

// What a sentence about the command begins with.
std::string opening(const CLI::App& command) { return command.get_parent() ? full_name(command) + ": " : ""; }

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
  throw InputError(concat(opening(app), "\"", word, "\" is not a command, nearest is ", nearest(names, word),
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
  const CLI::App& command = chosen(app);
  if (&command == &app) {
    const std::vector<std::string> words = app.remaining();
    if (!words.empty() && words[0].starts_with("-")) return not_an_option(app, words[0]);
    return concat(e.what(), ", see strata --help");
  }
  const std::vector<std::string> extra = app.remaining(true);
  if (dynamic_cast<const CLI::ConversionError*>(&e))
    return concat(opening(command), e.what(), ", a number is needed");
  if (!dynamic_cast<const CLI::ExtrasError*>(&e) || extra.empty()) return concat(opening(command), e.what());
  const std::string& word = extra.front();
  if (!word.starts_with("-"))
    return concat(opening(command), "nothing is expected where \"", word, "\" stands");
  return concat(opening(command), not_an_option(command, word));
}

}  // namespace

std::string read_command_line(int argc, char** argv, Arguments& arguments) {
  CLI::App app("Pre-trains DeepSeekMoE-style Transformers with a choice of residual connections.", "strata");
  app.set_version_flag("--version", "strata 0.1.0");
  app.require_subcommand(1);
  app.footer(
      "strata COMMAND --help describes a command. Exit status: 0 done, 1 the run failed, 2 bad usage or "
      "input.");
  add_commands(app, arguments);
  check_command(app, argc - 1, argv + 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    if (launched_rank() == 0) app.exit(e);
    return {};
  } catch (const CLI::ParseError& e) {
    throw InputError(complaint(app, e));
  }
  return full_name(chosen(app));
}

}  // namespace strata::tools
