// The manual page, attune(1), made from the commands' own tables: attune --manual | man -l -
#include "manual.h"

#include <fmt/format.h>

#include "attune/lib/version.h"

namespace attune::program {
namespace {

// In the language of man pages a backslash escapes, a hyphen is no minus, and a point or quote that starts a line commands.
std::string roff(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\') safe += "\\e";
    else if (c == '-') safe += "\\-";
    else if ((c == '.' || c == '\'') && (safe.empty() || safe.back() == '\n')) safe += std::string("\\&") + c;
    else safe += c;
  }
  return safe;
}

std::string with_choices(const std::string& help, const std::vector<std::string>& choices) {
  return choices.empty() ? help : fmt::format("{}: {}", help, fmt::join(choices, ", "));
}

std::string entry(const std::string& name, const std::string& value, const std::string& text) {
  return fmt::format(".TP\n.B {}{}\n{}\n", roff(name), value.empty() ? "" : " \\fI" + roff(value) + "\\fR", roff(text));
}

std::string section(const Command& command) {
  std::string page = fmt::format(".SS attune {}", command.name);
  for (const Operand& operand : command.operands)
    page += operand.required ? " " + roff(operand.name) : " [" + roff(operand.name) + "]";
  page += "\n" + roff(command.about) + "\n";
  for (const Operand& operand : command.operands)
    page += entry(operand.name, "", with_choices(operand.help, operand.choices));
  for (const Option& option : command.options)
    page += entry(option.name, option.value, with_choices(option.help, option.choices));
  for (const auto& [line, note] : command.examples)
    page += fmt::format(".PP\nExample, {}:\n.RS\n.nf\n{}\n.fi\n.RE\n", roff(note), roff(line));
  return page;
}

}  // namespace

std::string manual(const std::vector<Option>& common, const std::vector<Option>& environment) {
  std::string page = fmt::format(".TH ATTUNE 1 \"\" \"attune {}\" \"User Commands\"\n.SH NAME\n"
                                 "attune \\- trains attention models on a CPU, and shows what they learned\n"
                                 ".SH SYNOPSIS\n.B attune\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n.SH COMMANDS\n",
                                 version());
  for (const Command& command : commands()) page += section(command);
  page += ".SH OPTIONS OF ALL COMMANDS\n";
  for (const Option& option : common) page += entry(option.name, option.value, option.help);
  page += ".SH ENVIRONMENT\n";
  for (const Option& variable : environment) page += entry(variable.name, "", variable.help);
  page += ".SH EXIT STATUS\n" + entry("0", "", "done") + entry("1", "", "a check failed") +
          entry("2", "", "your input") + entry("3", "", "the environment: a full disk, no memory") +
          entry("130", "", "interrupted");
  return page;
}

}  // namespace attune::program
