// What a command of the program is: its words, from which the help, the parser and the shells' completions are made,
// and the function that does it. A command is one file.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace attune::program {

class Arguments;

struct Option {
  std::string name;                  // "--steps"
  std::string value;                 // what it takes, such as "N"; empty: nothing, it is a switch
  std::string help;                  // what it does, and [what holds without it]
  std::vector<std::string> choices;  // where these are all that it takes
};

struct Operand {
  std::string name;  // "DIR"
  std::string help;
  bool required = true;
  std::vector<std::string> choices = {};
};

struct Command {
  std::string name, summary;
  std::string about;                                          // what it does, in a paragraph or two
  std::vector<std::pair<std::string, std::string>> examples;  // a command, and what it is good for
  std::vector<Operand> operands;
  std::vector<Option> options;
  std::function<int(const Arguments&)> run;  // returns the exit code
};

Command train_command();
Command generate_command();
Command inspect_command();
Command verify_command();
Command bench_command();
Command study_command();
Command completion_command();

// All of them, in the order of the help.
const std::vector<Command>& commands();

// The exit codes.
enum Exit { kDone = 0, kFailedCheck = 1, kBadInput = 2, kEnvironment = 3, kInterrupted = 130 };

}  // namespace attune::program
