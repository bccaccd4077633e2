// The commands with their options: their names, help and limits, and which argument each one sets.
#pragma once
#include "tools/commands.h"

namespace CLI {
class App;
}

namespace strata::tools {

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

// Parsing sets the arguments, which must outlive it, of the command that is named. Options that do not go
// together make it throw a CLI::ParseError.
void add_commands(CLI::App& app, Arguments& arguments);

}  // namespace strata::tools
