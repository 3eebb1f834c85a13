// attune: trains attention models on a CPU, generates from them, shows what is in them, and checks their gradients.
//
// Here the command line is parsed, and faults become exit codes. Each command is a file of its own; what all have in
// common is in command.h.
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>

#include "arguments.h"
#include "attune/layers/names.h"
#include "attune/lib/kernels/rows.h"
#include "attune/lib/threads.h"
#include "attune/lib/version.h"
#include "attune/lib/wrap.h"
#include "command.h"
#include "manual.h"

namespace attune::program {

const std::vector<Command>& commands() {
  static const std::vector<Command> all = [] {
    std::vector<Command> list;
    for (const auto make :
         {train_command, generate_command, inspect_command, verify_command, bench_command, study_command, completion_command})
      list.push_back(make());
    return list;
  }();
  return all;
}

namespace {

// ---- Help, in 80 columns

constexpr int kWidth = 80;

// The text in lines, the first of which stands behind `start`, and the others under it.
std::string wrapped(const std::string& start, const std::string& text, int indent) {
  const bool is_long = indent > 0 && show::columns(start) >= indent;
  const std::string line = (is_long ? start + "\n" + show::pad("", indent) : show::pad(start, indent)) + text;
  return attune::wrapped(line, static_cast<std::size_t>(indent), kWidth) + '\n';
}

// Examples and what they are good for: behind them where there is room, else above them.
std::string examples_text(const Command& command) {
  int widest = 0, widest_note = 0;
  for (const auto& [line, note] : command.examples) {
    widest = std::max(widest, show::columns(line));
    widest_note = std::max(widest_note, show::columns(note));
  }
  const bool fits = 2 + widest + 4 + widest_note <= kWidth;
  std::string page;
  for (const auto& [line, note] : command.examples)
    page +=
        fits ? fmt::format("  {}  # {}\n", show::pad(line, widest), note) : fmt::format("  # {}\n  {}\n", note, line);
  return page;
}

const std::vector<Option> kCommon = {{"--plain", "", "no colours, no bar: as where there is no terminal", {}},
                                     {"--verbose", "", "says more, on standard error", {}},
                                     {"--help", "", "this page", {}}};

const std::vector<Option> kEnvironmentVariables = {
    {"ATTUNE_THREADS", "", "how many threads work; the results do not depend on it", {}},
    {"ATTUNE_ISA", "", "scalar, avx2 or avx512 instead of the best there is", {}},
    {"NO_COLOR", "", "where set, no colours", {}}};

std::string help_of(const Command& command) {
  std::string usage = "usage: attune " + command.name;
  for (const Operand& operand : command.operands)
    usage += operand.required ? " " + operand.name : " [" + operand.name + "]";
  std::string page = usage + " [OPTION]...\n\n" + wrapped("", command.about, 0) + "\n";
  page += examples_text(command) + "\n";
  for (const Operand& operand : command.operands) {
    const std::string choices = operand.choices.empty() ? "" : fmt::format(": {}", fmt::join(operand.choices, ", "));
    page += wrapped("  " + operand.name, operand.help + choices, 22);
  }
  for (const std::vector<Option>& options : {command.options, kCommon})
    for (const Option& option : options) {
      const std::string choices = option.choices.empty() ? "" : fmt::format(": {}", fmt::join(option.choices, ", "));
      page += wrapped(fmt::format("  {} {}", option.name, option.value), option.help + choices, 22);
    }
  return page;
}

std::string help() {
  std::string page =
      fmt::format("attune {}: trains attention models on a CPU, and shows what they learned.\n\n", version());
  page += "usage: attune COMMAND [OPTION]...\n\n";
  for (const Command& command : commands()) page += wrapped("  " + command.name, command.summary, 14);
  page += "\nA first model, in less than a minute:\n\n";
  for (const char* line : {"attune train copy", "attune generate runs/copy",
                           "attune inspect runs/copy --svg heads.svg", "attune verify runs/copy"})
    page += fmt::format("  {}\n", line);
  page += "\n";
  page += wrapped("  --help", "this page; attune COMMAND --help has examples and all options", 14);
  page += wrapped("  --version", "the version", 14);
  page += wrapped("  --manual", "all of it as a manual page: attune --manual | man -l -", 14);
  page += "\nThe environment:\n\n";
  for (const Option& variable : kEnvironmentVariables) page += wrapped("  " + variable.name, variable.help, 18);
  page += "\n" + wrapped("",
                         "Exit codes: 0 done, 1 a check failed, 2 your input, 3 the environment (a full disk, no "
                         "memory), 130 interrupted.",
                         0);
  return page;
}

// ---- The command line

struct Parsed {
  const Command* command = nullptr;  // null: there is nothing more to do
  Arguments arguments;
};

[[noreturn]] void refuse_word(const Command* command, const std::string& word) {
  std::vector<std::string> known;
  if (!command) {
    for (const Command& each : commands()) known.push_back(each.name);
    known.insert(known.end(), {"--help", "--version", "--manual"});
    refuse("{}: {} See attune --help", word, no_such(word.starts_with("-") ? "option" : "command", word, known, 0));
  }
  if (!word.starts_with("-")) refuse("{}: one word too many; see attune {} --help", word, command->name);
  for (const std::vector<Option>& options : {command->options, kCommon})
    for (const Option& option : options) known.push_back(option.name);
  const std::string name = word.substr(0, word.find('='));
  refuse("{}: {} See attune {} --help", name, no_such("option", name, known, 0), command->name);
}

class Parser {
 public:
  Parser() {
    app_.set_help_flag();
    app_.allow_extras();
    app_.add_flag("--help,-h", help_);
    app_.add_flag("--version", version_);
    app_.add_flag("--manual", manual_);
    for (const Command& command : commands()) add(command);
  }

  Parsed parse(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ArgumentMismatch& error) {  // "--steps: 1 required TEXT missing"
      const std::string what = error.what();
      const auto entry = std::find_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.app->parsed(); });
      refuse("{} wants a value behind it; see attune {}--help", what.substr(0, what.find(':')),
             entry == entries_.end() ? "" : entry->command->name + " ");
    } catch (const CLI::ParseError& error) {
      refuse("{}; see attune --help", error.what());
    }
    for (Entry& entry : entries_)
      if (entry.app->parsed()) return parsed(entry);
    if (version_) return print(fmt::format("attune {}\n", version()));
    if (manual_) return print(manual(kCommon, kEnvironmentVariables));
    const std::vector<std::string> extras = app_.remaining();
    if (!extras.empty() && !help_) refuse_word(nullptr, extras.front());
    return print(help());
  }

 private:
  struct Entry {
    const Command* command = nullptr;
    CLI::App* app = nullptr;
    std::map<std::string, std::string> values;
    std::vector<std::string> operands;
    bool plain = false, verbose = false, help = false;
  };

  void add(const Command& command) {
    Entry& entry = entries_.emplace_back();
    entry.command = &command;
    entry.app = app_.add_subcommand(command.name);
    entry.app->set_help_flag();
    entry.app->allow_extras();
    entry.app->add_flag("--help,-h", entry.help);
    entry.app->add_flag("--plain", entry.plain);
    entry.app->add_flag("--verbose,-v", entry.verbose);
    for (const Option& option : command.options) {
      std::string& value = entry.values[option.name];
      if (option.value.empty())
        entry.app->add_flag(option.name);
      else
        entry.app->add_option(option.name, value)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
    if (!command.operands.empty()) entry.app->add_option("operands", entry.operands)->expected(0, 1000);
  }

  Parsed parsed(Entry& entry) {
    if (entry.help) return print(help_of(*entry.command));
    const std::vector<std::string> extras = entry.app->remaining(true);
    if (!extras.empty()) refuse_word(entry.command, extras.front());
    if (entry.operands.size() > entry.command->operands.size())
      refuse_word(entry.command, entry.operands[entry.command->operands.size()]);
    Parsed result{entry.command, {}};
    Arguments& a = result.arguments;
    a.operands = entry.operands;
    a.plain = entry.plain, a.verbose = entry.verbose;
    for (const auto& [name, value] : entry.values)
      if (entry.app->count(name) > 0) a.options[name] = value;
    for (std::size_t i = a.operands.size(); i < entry.command->operands.size(); ++i)
      if (entry.command->operands[i].required) {
        const Operand& operand = entry.command->operands[i];
        refuse("{} wants {}, {}: such as {}", entry.command->name, operand.name, operand.help,
               entry.command->examples.front().first);
      }
    return result;
  }

  static Parsed print(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return {};
  }

  CLI::App app_;
  std::vector<Entry> entries_ = reserved();
  bool help_ = false, version_ = false, manual_ = false;

  // Options point into the entries, which therefore stay where they are.
  static std::vector<Entry> reserved() {
    std::vector<Entry> entries;
    entries.reserve(commands().size());
    return entries;
  }
};

void set_up_log(const Arguments& arguments) {
  spdlog::sink_ptr sink;
  if (arguments.err().colors)
    sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  else
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("attune", sink));
  spdlog::set_pattern("attune: %^%l%$: %v");
  if (arguments.verbose) spdlog::set_level(spdlog::level::debug);
}

int run(int argc, char** argv) {
  signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error of write(), like any other
  Parser parser;
  Parsed parsed = parser.parse(argc, argv);
  int code = kDone;
  if (parsed.command) {
    parsed.arguments.command_line.assign(argv, argv + argc);
    set_up_log(parsed.arguments);
    threads(), kernels::table();  // what the environment says of them is wrong before anything is made, or never
    code = parsed.command->run(parsed.arguments);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw std::runtime_error("standard output cannot be written");
  return code;
}

int fail(int code, const char* why) {
  std::fflush(stdout);
  fmt::print(stderr, "attune: {}\n", why);
  return code;
}

}  // namespace
}  // namespace attune::program

int main(int argc, char** argv) {
  using namespace attune::program;
  try {
    return run(argc, argv);
  } catch (const InputError& error) {
    return fail(kBadInput, error.what());
  } catch (const std::invalid_argument& error) {
    return fail(kBadInput, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kEnvironment, "no memory is left: a smaller --batch, --context or --width takes less");
  } catch (const std::exception& error) {
    return fail(kEnvironment, error.what());
  }
}
