// attune completion: scripts that let a shell complete Attune's words. They are made from the commands' own tables.
#include <fmt/format.h>

#include <cstdio>

#include "arguments.h"
#include "command.h"

namespace attune::program {
namespace {

// What a value of that name is completed to: files, folders, or nothing.
bool is_path(const std::string& value) { return value == "FILE" || value == "DIR"; }

std::string names_of_commands() {
  std::string names;
  for (const Command& command : commands()) names += (names.empty() ? "" : " ") + command.name;
  return names;
}

std::string bash() {
  std::string script = fmt::format(R"sh(# bash completion for attune: eval "$(attune completion bash)"
_attune() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words= path=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{} --help --version --manual" -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}} $before" in
)sh",
                                   names_of_commands());
  for (const Command& command : commands())
    for (const Option& option : command.options) {
      if (!option.choices.empty())
        script += fmt::format("    '{} {}') COMPREPLY=($(compgen -W '{}' -- \"$word\")); return ;;\n", command.name,
                              option.name, fmt::join(option.choices, " "));
      else if (is_path(option.value))
        script +=
            fmt::format("    '{} {}') compopt -o default; COMPREPLY=(); return ;;\n", command.name, option.name);
      else if (!option.value.empty())
        script += fmt::format("    '{} {}') return ;;\n", command.name, option.name);
    }
  script += "  esac\n  case ${COMP_WORDS[1]} in\n";
  for (const Command& command : commands()) {
    std::vector<std::string> words;
    for (const Option& option : command.options) words.push_back(option.name);
    for (const Operand& operand : command.operands)
      words.insert(words.end(), operand.choices.begin(), operand.choices.end());
    words.insert(words.end(), {"--plain", "--verbose", "--help"});
    const bool wants_path = !command.operands.empty() && command.operands.front().choices.empty();
    script +=
        fmt::format("    {}) words='{}'{} ;;\n", command.name, fmt::join(words, " "), wants_path ? " path=yes" : "");
  }
  return script + R"sh(  esac
  if [ -n "$path" ] && [ "${word#-}" = "$word" ]; then
    compopt -o default
    COMPREPLY=()
    return
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default
}
complete -F _attune attune
)sh";
}

// For zsh, in single quotes, where ":" and "[" mean something.
std::string zsh_text(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'')
      safe += "'\\''";
    else if (c == ':' || c == '[' || c == ']')
      safe += std::string("\\") + c;
    else
      safe += c;
  }
  return safe;
}

std::string zsh() {
  std::string script =
      "#compdef attune\n# zsh completion for attune: eval \"$(attune completion zsh)\"\n_attune() {\n"
      "  local -a words\n  if (( CURRENT == 2 )); then\n    words=(\n";
  for (const Command& command : commands())
    script += fmt::format("      '{}:{}'\n", command.name, zsh_text(command.summary));
  script +=
      "    )\n    _describe command words\n    return\n  fi\n  local command=$words[2]\n  "
      "command=${${(z)BUFFER}[2]}\n"
      "  shift words\n  (( CURRENT-- ))\n  case $command in\n";
  for (const Command& command : commands()) {
    script += fmt::format("    {})\n      _arguments", command.name);
    for (const Option& option : command.options) {
      script += fmt::format(" \\\n        '{}[{}]", option.name, zsh_text(option.help));
      if (!option.choices.empty())
        script += fmt::format(":{}:({})", option.value, fmt::join(option.choices, " "));
      else if (is_path(option.value))
        script += fmt::format(":{}:_files", option.value);
      else if (!option.value.empty())
        script += fmt::format(":{}: ", option.value);
      script += "'";
    }
    for (const Operand& operand : command.operands)
      script += operand.choices.empty()
                    ? fmt::format(" \\\n        '::{}:_files -/'", operand.name)
                    : fmt::format(" \\\n        '::{}:({})'", operand.name, fmt::join(operand.choices, " "));
    script +=
        " \\\n        '--plain[no colours, no bar]' '--verbose[says more]' '--help[how it is used]'\n      ;;\n";
  }
  return script + "  esac\n}\ncompdef _attune attune\n";
}

std::string fish() {
  std::string script = "# fish completion for attune: attune completion fish | source\ncomplete -c attune -f\n";
  for (const Command& command : commands()) {
    script += fmt::format("complete -c attune -n __fish_use_subcommand -a {} -d {}\n", command.name,
                          shell_word(command.summary));
    const std::string when = fmt::format("complete -c attune -n '__fish_seen_subcommand_from {}'", command.name);
    for (const Option& option : command.options) {
      script += fmt::format("{} -l {} -d {}", when, option.name.substr(2), shell_word(option.help));
      if (!option.choices.empty())
        script += fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
      else if (is_path(option.value))
        script += " -r -F";
      else if (!option.value.empty())
        script += " -x";
      script += '\n';
    }
    for (const Operand& operand : command.operands)
      script += operand.choices.empty() ? when + " -F\n"
                                        : fmt::format("{} -a '{}'\n", when, fmt::join(operand.choices, " "));
  }
  return script;
}

const std::vector<std::string> kShells = {"bash", "zsh", "fish"};

int run(const Arguments& a) {
  const std::string shell = one_of("", "shell", a.operands.front(), kShells);
  const std::string script = shell == "bash" ? bash() : shell == "zsh" ? zsh() : fish();
  std::fwrite(script.data(), 1, script.size(), stdout);
  return kDone;
}

}  // namespace

Command completion_command() {
  return {.name = "completion",
          .summary = "lets your shell complete these words",
          .about = "Prints a script for your shell, which completes commands, options and what they take.",
          .examples = {{"eval \"$(attune completion bash)\"", "in ~/.bashrc"},
                       {"eval \"$(attune completion zsh)\"", "in ~/.zshrc"},
                       {"attune completion fish | source", "in config.fish"}},
          .operands = {{"SHELL", "your shell", true, kShells}},
          .options = {},
          .run = run};
}

}  // namespace attune::program
