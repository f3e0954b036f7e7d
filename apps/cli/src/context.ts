import type { Given } from './arguments.ts'
import type { Tree } from './command.ts'
import type { Environment } from './environment.ts'
import type { Input, Io, Output } from './io.ts'
import type { Paint, Screen } from './print.ts'

/** The result of a command, printed in the requested format. */
export interface Answer {
  /** Printed as `{"ok":true,"data":…}`. A field without a value is null, not missing. */
  data: unknown
  /** The same as text. */
  text: (paint: Paint) => string
  /** Next steps, printed to stderr after the text. */
  hints?: readonly string[]
  /** The result was printed item by item; nothing is left to print. */
  wasStreamed?: true
  /** The command has a result, but the process ends with 1. */
  isFailure?: boolean
  /** For `--output env`. */
  env?: Record<string, string>
}

/** The server of a command, for error messages and for the comparison of versions. */
export interface Connection {
  /** As configured. */
  url: string
  /** Aborts the request for the version. */
  abandon: () => void
  /** Never rejects; null when the version is unknown. */
  serverVersion: Promise<string | null>
}

export interface Context {
  tree: Tree
  /** `projects create` */
  command: string
  given: Given
  cwd: string
  environment: Environment
  stdin: Input
  stderr: Output
  screen: Screen
  interruption: Io['interruption']
  temporaryFiles: Io['temporaryFiles']
  /** Connections that are closed when the command has ended. */
  connections: Set<{ destroy(): void }>
  /** Set with the first request to a server. */
  connection: Connection | null
}

export type Run = (context: Context) => Promise<Answer>
