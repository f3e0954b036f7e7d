// What the command tree is made of.
import type { Run } from './context.ts'

export interface Flag {
  name: string
  short?: string
  /** What the value is called in the help; a flag without one is a switch. */
  value?: string
  choices?: readonly string[]
  isRequired?: true
  /** A switch that may also be followed by true or false. */
  takesBoolean?: true
  summary: string
}

export interface Operand {
  name: string
  summary: string
  choices?: readonly string[]
  isOptional?: true
  /** Takes all words that are left, one per line. */
  isRest?: true
}

export interface Command {
  path: string
  summary: string
  operands?: readonly Operand[]
  flags?: readonly Flag[]
  examples?: readonly string[]
  isHidden?: true
  /** Has an answer for `--output env`. */
  printsEnv?: true
  /** What it prints is meant for another program as it is: text also when piped. */
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
