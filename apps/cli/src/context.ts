import type { Given } from './arguments.ts'
import type { Tree } from './command.ts'
import type { Environment } from './environment.ts'
import type { Paint, Screen } from './print.ts'

/** What a command gives back; `main` prints it in the format asked for. */
export interface Answer {
  /** Printed as `{"ok":true,"data":…}`; a field without a value is null, not missing. */
  data: unknown
  /** The same for people. */
  text: (paint: Paint) => string
  /** What to do next, said on stderr after the text. */
  hints?: readonly string[]
  /** It was printed as it came, piece by piece; nothing is left to say. */
  wasStreamed?: true
  /** For `--output env`. */
  env?: Record<string, string>
}

/** The server a command has talked to, for wording failures and for comparing versions afterwards. */
export interface Connection {
  /** As the user knows it. */
  url: string
  /** Ends the question for the version when the answer is no longer waited for. */
  abandon: () => void
  /** Never rejects; null when it could not be learned. */
  serverVersion: Promise<string | null>
}

export interface Context {
  tree: Tree
  /** `projects create` */
  command: string
  given: Given
  cwd: string
  environment: Environment
  screen: Screen
  /** Set by whatever talks to a server first. */
  connection: Connection | null
}

export type Run = (context: Context) => Promise<Answer>
