import { asks, findCommand, givenTo, type Token, tokenise, wordsOf } from './arguments.ts'
import { tree } from './commands.ts'
import type { Context } from './context.ts'
import { type Environment, readEnvironment } from './environment.ts'
import { explain } from './explain.ts'
import { Failure, Interrupted } from './failure.ts'
import { wasInterrupted, watchForInterruption } from './interruption.ts'
import { type Format, openScreen, type Screen } from './print.ts'

/** Sets the exit code: 0, 1, or 130 after Ctrl-C. */
export async function run(argv: readonly string[], ownVersion: string): Promise<void> {
  watchForInterruption()
  process.stdout.on('error', endOfPipe)
  const tokens = tokenise(argv, tree)
  let screen = openScreenFor(tokens, {})
  let context: Context | null = null
  try {
    const cwd = process.cwd()
    const environment = readEnvironment(cwd)
    screen = openScreenFor(tokens, environment)
    const { command, rest } = findCommand(wordsOf(tokens), tree)
    if (command.printsText) screen = openScreenFor(tokens, environment, 'text')
    const given = givenTo(command, rest, tokens, tree)
    if (screen.format === 'env' && !command.printsEnv) throw noEnv(command.path)
    context = { tree, command: command.path, given, cwd, environment, screen, connection: null }
    const execute = await command.load()
    screen.answer(await execute(context))
  } catch (error) {
    fail(error, screen, context?.command ?? wordsOf(tokens).join(' '), context)
  }
  if (context) await compareVersions(context, ownVersion)
}

function fail(error: unknown, screen: Screen, command: string, context: Context | null): void {
  if (error instanceof Interrupted || wasInterrupted()) {
    process.exitCode = 130
    return
  }
  const failure = explain(error, context ?? { connection: null })
  screen.failure(command, failure)
  screen.debug(String(failure.stack))
  for (let cause = failure.cause; cause instanceof Error; cause = cause.cause)
    screen.debug(`caused by ${cause.stack}`)
  process.exitCode = 1
}

function noEnv(path: string): Failure {
  const fix = 'Use --output text or --output json.'
  return new Failure('usage_invalid_value', `plinth ${path} cannot answer with --output env.`, fix)
}

/** §9: one line on stderr when the server is of another version; the answer is out by now and nobody waits. */
async function compareVersions({ connection, screen }: Context, ours: string): Promise<void> {
  if (!connection) return
  const { serverVersion, abandon, url } = connection
  const patience = setTimeout(abandon, 500)
  const theirs = await serverVersion
  clearTimeout(patience)
  if (theirs && theirs !== ours)
    screen.warn(`plinth is version ${ours}, the platform at ${url} is ${theirs}.`)
}

/** Reads only the flags that say how to write, so that even a wrong command line is answered in the right format. */
function openScreenFor(tokens: readonly Token[], environment: Environment, fallback?: Format): Screen {
  return openScreen({
    format: formatAsked(tokens, environment) ?? fallback ?? (process.stdout.isTTY ? 'text' : 'json'),
    hasColor: !asks(tokens, 'no-color') && !environment['NO_COLOR'],
    isDebug: asks(tokens, 'debug'),
  })
}

function formatAsked(tokens: readonly Token[], environment: Environment): Format | undefined {
  const asked = tokens.findLast(token => token.kind === 'flag' && token.flag?.name === 'output')
  const flag = asked?.kind === 'flag' ? asked.value : undefined
  if (flag === 'text' || flag === 'json' || flag === 'env') return flag
  const variable = environment['PLATFORM_OUTPUT']
  return variable === 'text' || variable === 'json' ? variable : undefined
}

/** `plinth projects list | head -1` closes the pipe early, which is no failure. */
function endOfPipe(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
}
