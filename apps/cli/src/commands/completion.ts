import { findCommand, tokenise, wordsOf } from '../arguments.ts'
import { type Command, childrenOf, type Tree } from '../command.ts'
import type { Answer, Context } from '../context.ts'

// The scripts call plinth for the words, so that they always match the installed commands.
const scripts: Readonly<Record<string, string>> = {
  bash: `_plinth() {
  local words
  words=$(plinth completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _plinth plinth`,
  zsh: `#compdef plinth
_plinth() {
  local -a candidates
  candidates=(\${(f)"$(plinth completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  compadd -a candidates
}
compdef _plinth plinth`,
  fish: `complete -c plinth -f -a '(plinth completion words -- (commandline -opc)[2..] (commandline -ct))'`,
}

export async function completion(context: Context): Promise<Answer> {
  const shell = context.given.operands['shell']!
  const script = scripts[shell]!
  return { data: { shell, script }, text: () => script }
}

export async function words(context: Context): Promise<Answer> {
  const typed = (context.given.operands['words'] ?? '').split('\n')
  const found = candidates(typed.slice(0, -1), typed.at(-1)!, context.tree)
  return { data: found, text: () => found.join('\n') }
}

/** The words that may come next. */
export function candidates(before: readonly string[], last: string, tree: Tree): string[] {
  const tokens = tokenise(before, tree)
  const open = tokens.at(-1)
  const isValue = open?.kind === 'flag' && open.flag?.value && open.value === undefined
  if (isValue) return beginning(last, open.flag?.choices ?? [])
  const path = wordsOf(tokens)
  const named = [tree.aliases.get(path[0] ?? '') ?? path[0], ...path.slice(1)].filter(
    word => word !== undefined,
  )
  const children = childrenOf(named, tree)
  const command = children.length > 0 ? undefined : commandAt(named, tree)
  if (last.startsWith('-')) {
    const flags = [...(command?.command.flags ?? []), ...tree.flags]
    return beginning(last, [...new Set(flags.map(flag => `--${flag.name}`))])
  }
  const operand = command?.command.operands?.[command.rest.length]
  return beginning(last, command ? (operand?.choices ?? []) : children)
}

const beginning = (start: string, options: readonly string[]) =>
  options.filter(option => option.startsWith(start))

function commandAt(path: readonly string[], tree: Tree): { command: Command; rest: string[] } | undefined {
  try {
    return findCommand(path, tree)
  } catch {
    return undefined
  }
}
