import { type Command, childrenOf, type Flag, type Operand } from './command.ts'
import { groups, sections, tree } from './commands.ts'

/** The help of a command, of a group or of everything; null when the words name none of them. */
export function help(argv: readonly string[], version: string): string | null {
  const words = wordsOf(argv)
  if (words.length === 0) return everything(version)
  const path = [tree.aliases.get(words[0]!) ?? words[0]!, ...words.slice(1)]
  if (childrenOf(path, tree).length > 0) return aboutGroup(path)
  for (let length = path.length; length > 0; length--) {
    const command = tree.commands.find(each => each.path === path.slice(0, length).join(' '))
    if (command) return aboutCommand(command)
  }
  return null
}

function wordsOf(argv: readonly string[]): string[] {
  const takesValue = (argument: string | undefined) =>
    tree.flags.some(flag => flag.value && (argument === `--${flag.name}` || argument === `-${flag.short}`))
  const words = argv.filter((argument, i) => !argument.startsWith('-') && !takesValue(argv[i - 1]))
  return words[0] === 'help' ? words.slice(1) : words
}

function everything(version: string): string {
  const known = childrenOf([], tree)
  const parts = sections.map(([title, names]) => {
    const rows = names.filter(name => known.includes(name)).map(name => [name, about(name)] as const)
    return `${title}\n${columns(rows)}`
  })
  return [
    `plinth ${version}: the command line of a Plinth platform`,
    'Usage: plinth <command> [flags]',
    ...parts,
    `Flags\n${flagLines(tree.flags)}`,
    'plinth <command> --help describes one command. Results are written to stdout, everything else to stderr.',
  ].join('\n\n')
}

const about = (name: string): string =>
  groups[name] ?? tree.commands.find(command => command.path === name)?.summary ?? ''

function aboutGroup(group: readonly string[]): string {
  const begin = `${group.join(' ')} `
  const rows = tree.commands
    .filter(command => command.path.startsWith(begin) && !command.isHidden)
    .map(command => [usage(command).slice('plinth '.length), command.summary] as const)
  return [`Usage: plinth ${group.join(' ')} <command> [flags]`, columns(rows)].join('\n\n')
}

function aboutCommand(command: Command): string {
  const operands = (command.operands ?? []).map(each => [operandName(each), each.summary] as const)
  return [
    command.summary,
    `Usage: ${usage(command)} [flags]`,
    ...(operands.length > 0 ? [`Arguments\n${columns(operands)}`] : []),
    ...(command.flags?.length ? [`Flags\n${flagLines(command.flags)}`] : []),
    `Flags of every command\n${flagLines(globalFlags(command))}`,
    ...(command.examples ? [`Example\n${command.examples.map(line => `  ${line}`).join('\n')}`] : []),
  ].join('\n\n')
}

const globalFlags = (command: Command) =>
  tree.flags
    .filter(flag => !command.flags?.some(own => own.name === flag.name))
    .map(flag => (flag.name === 'output' && command.printsText ? { ...flag, summary: textOutput } : flag))

const textOutput = 'text or json; default text, also into a pipe'

const operandName = (operand: Operand) => (operand.isOptional ? `[${operand.name}]` : `<${operand.name}>`)

const usage = (command: Command): string =>
  ['plinth', command.path, ...(command.operands ?? []).map(operandName), ...required(command)].join(' ')

const required = (command: Command) =>
  (command.flags ?? []).filter(flag => flag.isRequired).map(flag => `--${flag.name} <${flag.value}>`)

function flagLines(flags: readonly Flag[]): string {
  const rows = flags.map(flag => {
    const short = flag.short ? `-${flag.short}, ` : ''
    const value = flag.value ? ` <${flag.value}>` : ''
    return [`${short}--${flag.name}${value}`, flag.summary] as const
  })
  return columns(rows)
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(0, ...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n')
}
