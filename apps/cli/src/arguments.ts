// Parses the command line against the command tree. Every error names what is wrong and what to do.
import { closest } from '@plinth/contract/closest.ts'
import { type Command, childrenOf, type Flag, type Tree } from './command.ts'
import { Failure } from './failure.ts'

export interface Given {
  operands: Readonly<Record<string, string>>
  /** Flags with a value, by name without dashes. Of a flag that is repeated, the last value; see `isRepeatable`. */
  values: Readonly<Record<string, string>>
  /** Flags without a value. */
  switches: ReadonlySet<string>
}

export type Token =
  | { kind: 'word'; text: string }
  | { kind: 'flag'; typed: string; flag: Flag | undefined; value: string | undefined }

/** Words and flags. Which flags take a value is known from the whole tree, so flags may come anywhere. */
export function tokenise(argv: readonly string[], tree: Tree): Token[] {
  const flags = [...tree.flags, ...tree.commands.flatMap(command => command.flags ?? [])]
  const tokens: Token[] = []
  for (let i = 0; i < argv.length; i++) {
    const argument = argv[i]!
    if (argument === '--') {
      for (const text of argv.slice(i + 1)) tokens.push({ kind: 'word', text })
      break
    }
    if (!argument.startsWith('-') || argument === '-') {
      tokens.push({ kind: 'word', text: argument })
      continue
    }
    const { typed, inline } = splitFlag(argument)
    const flag = flags.find(each => typed === `--${each.name}` || typed === `-${each.short}`)
    const next = argv[i + 1]
    const fits = flag?.value ? !looksLikeFlag(next ?? '') : flag?.takesBoolean && isBoolean(next)
    const takesNext = fits && inline === undefined && next !== undefined
    if (takesNext) i++
    tokens.push({ kind: 'flag', typed, flag, value: takesNext ? next : inline })
  }
  return tokens
}

function splitFlag(argument: string): { typed: string; inline: string | undefined } {
  const equals = argument.indexOf('=')
  if (equals > 0) return { typed: argument.slice(0, equals), inline: argument.slice(equals + 1) }
  const isShortWithValue = !argument.startsWith('--') && argument.length > 2
  if (isShortWithValue) return { typed: argument.slice(0, 2), inline: argument.slice(2) }
  return { typed: argument, inline: undefined }
}

/** `-5` is a value, `-y` and `--name` are not. */
const looksLikeFlag = (argument: string) => /^-(-|[a-zA-Z]$)/.test(argument)

const isBoolean = (argument: string | undefined) => argument === 'true' || argument === 'false'

export const hasFlag = (tokens: readonly Token[], flag: string): boolean =>
  tokens.some(token => token.kind === 'flag' && token.flag?.name === flag)

export const wordsOf = (tokens: readonly Token[]): string[] =>
  tokens.flatMap(token => (token.kind === 'word' ? [token.text] : []))

/** The command with the longest path that the words begin with, and the remaining words. */
export function findCommand(words: readonly string[], tree: Tree): { command: Command; rest: string[] } {
  const named = [tree.aliases.get(words[0] ?? '') ?? words[0], ...words.slice(1)]
  for (let length = named.length; length > 0; length--) {
    const command = tree.commands.find(each => each.path === named.slice(0, length).join(' '))
    if (command) return { command, rest: words.slice(length) }
  }
  throw unknownCommand(words, named as string[], tree)
}

function unknownCommand(words: readonly string[], named: readonly string[], tree: Tree): Failure {
  const isGroup = (length: number) => {
    const begin = `${named.slice(0, length).join(' ')} `
    return length === 0 || tree.commands.some(command => command.path.startsWith(begin))
  }
  let depth = 0
  while (depth < named.length && isGroup(depth + 1)) depth++
  const group = named.slice(0, depth)
  const options = childrenOf(group, tree)
  const unknown = words[depth]
  if (unknown === undefined) {
    return new Failure(
      'usage_missing_command',
      `plinth ${group.join(' ')} needs a command: ${options.join(', ')}.`,
      `plinth ${group.join(' ')} --help describes them.`,
    )
  }
  const near = closest(unknown, depth === 0 ? [...options, ...tree.aliases.keys()] : options)
  const meant = depth === 0 && near ? (tree.aliases.get(near) ?? near) : near
  const within = depth === 0 ? '' : ` of plinth ${group.join(' ')}`
  return new Failure(
    'usage_unknown_command',
    `There is no command "${unknown}"${within}.`,
    meant
      ? `Did you mean plinth ${[...group, meant].join(' ')}?`
      : `plinth ${[...group, '--help'].join(' ')} lists the commands.`,
  )
}

export function parseArguments(
  command: Command,
  rest: readonly string[],
  tokens: readonly Token[],
  tree: Tree,
): Given {
  const allowed = [...(command.flags ?? []), ...tree.flags]
  const allowedBefore = [...tree.flags, ...(command.flags ?? [])]
  let isBeforeCommand = true
  const values: Record<string, string> = {}
  const switches = new Set<string>()
  for (const token of tokens) {
    if (token.kind === 'word') {
      isBeforeCommand = false
      continue
    }
    const flag = (isBeforeCommand ? allowedBefore : allowed).find(each => each.name === token.flag?.name)
    if (!flag) throw unknownFlag(token.typed, command, allowed)
    if (flag.value) {
      const value = givenValue(flag, token.typed, token.value)
      const name = flag.storedAs ?? flag.name
      const before = flag.isRepeatable ? values[name] : undefined
      values[name] = before === undefined ? value : `${before}\n${value}`
    } else if (isOn(token.typed, token.value)) switches.add(flag.name)
  }
  checkRequired(command, values)
  return { operands: operandsOf(command, rest), values, switches }
}

function checkRequired(command: Command, values: Given['values']): void {
  for (const flag of command.flags ?? []) {
    if (!flag.isRequired || values[flag.storedAs ?? flag.name] !== undefined) continue
    const one = flag.choices ? `one of ${flag.choices.join(', ')}` : flag.summary
    throw new Failure('usage_missing_flag', `--${flag.name} is missing: ${one}.`, usageHint(command))
  }
}

function givenValue(flag: Flag, typed: string, value: string | undefined): string {
  if (value === undefined || value === '')
    throw new Failure('usage_missing_value', `${typed} needs a value: ${typed} <${flag.value}>.`)
  if (flag.choices) checkChoice(typed, value, flag.choices)
  return value
}

function checkChoice(what: string, value: string, choices: readonly string[]): void {
  if (choices.includes(value)) return
  const meant = closest(value, choices)
  throw new Failure(
    'usage_invalid_value',
    `${what} must be one of ${choices.join(', ')}, not "${value}".`,
    meant ? `Did you mean ${meant}?` : null,
  )
}

function isOn(typed: string, value: string | undefined): boolean {
  if (value === undefined || value === 'true') return true
  if (value === 'false') return false
  throw new Failure('usage_invalid_value', `${typed} takes no value, but "${value}" was given.`)
}

function unknownFlag(typed: string, command: Command, allowed: readonly Flag[]): Failure {
  const meant = closest(
    typed,
    allowed.map(flag => `--${flag.name}`),
  )
  return new Failure(
    'usage_unknown_flag',
    `plinth ${command.path} has no flag ${typed}.`,
    meant ? `Did you mean ${meant}?` : usageHint(command),
  )
}

function operandsOf(command: Command, rest: readonly string[]): Record<string, string> {
  const declared = command.operands ?? []
  const operands: Record<string, string> = {}
  for (const [place, operand] of declared.entries()) {
    const value = operand.isRest ? rest.slice(place).join('\n') : rest[place]
    if (value !== undefined && value !== '') {
      if (operand.choices) checkChoice(`<${operand.name}>`, value, operand.choices)
      operands[operand.name] = value
    } else if (!operand.isOptional) {
      const message = `<${operand.name}> is missing: ${operand.summary}.`
      throw new Failure('usage_missing_argument', message, usageHint(command))
    }
  }
  const unexpected = declared.some(operand => operand.isRest) ? undefined : rest[declared.length]
  if (unexpected === undefined) return operands
  throw new Failure(
    'usage_unexpected_argument',
    `plinth ${command.path} does not take the argument "${unexpected}".`,
    usageHint(command),
  )
}

const usageHint = (command: Command) => `plinth ${command.path} --help shows the usage.`
