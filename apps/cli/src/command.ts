// The types of the command tree.
import type { Run } from './context.ts'

export interface Flag {
  name: string
  short?: string
  /** The name of the value in the help; a flag without a value is a switch. */
  value?: string
  choices?: readonly string[]
  isRequired?: true
  /** May be given several times; its values are separated by line breaks. */
  isRepeatable?: true
  /** A switch that may also be followed by true or false. */
  takesBoolean?: true
  /** The name of its value, if a flag of every command has the same name. Before the command it is that other flag. */
  storedAs?: string
  summary: string
}

export interface Operand {
  name: string
  summary: string
  choices?: readonly string[]
  isOptional?: true
  /** Takes all remaining words, one per line. */
  isRest?: true
}

export interface Command {
  path: string
  summary: string
  operands?: readonly Operand[]
  flags?: readonly Flag[]
  examples?: readonly string[]
  isHidden?: true
  /** Supports `--output env`. */
  printsEnv?: true
  /** Prints text for other programs, also into a pipe. */
  printsText?: true
  load: () => Promise<Run>
}

export interface Tree {
  commands: readonly Command[]
  flags: readonly Flag[]
  aliases: ReadonlyMap<string, string>
}

/** The words that may follow these, in the order of the tree. */
export function childrenOf(group: readonly string[], tree: Tree): string[] {
  const paths = tree.commands.filter(command => !command.isHidden).map(command => command.path.split(' '))
  const below = paths.filter(path => path.length > group.length && group.every((word, i) => path[i] === word))
  return [...new Set(below.map(path => path[group.length]!))]
}
