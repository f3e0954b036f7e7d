// One command: parsed, run and printed.
import { findCommand, hasFlag, parseArguments, type Token, tokenise, wordsOf } from './arguments.ts'
import { tree } from './commands.ts'
import type { Context } from './context.ts'
import { type Environment, readEnvironment } from './environment.ts'
import { explain } from './explain.ts'
import { Failure, Interrupted } from './failure.ts'
import type { Io } from './io.ts'
import { type Format, openScreen, type Screen } from './print.ts'

/** Returns the exit code: 0, 1, or 130 after Ctrl-C. */
export async function execute(argv: readonly string[], io: Io, ownVersion: string): Promise<number> {
  let signal: AbortSignal | null = null
  const interruption = () => {
    signal ??= io.interruption()
    return signal
  }
  const wasInterrupted = () => signal?.aborted === true
  const tokens = tokenise(argv, tree)
  let screen = openScreenFor(io, tokens, {})
  let context: Context | null = null
  let exitCode = 0
  const connections: Context['connections'] = new Set()
  try {
    const { cwd, temporaryFiles } = io
    const environment = readEnvironment(io.env, cwd)
    screen = openScreenFor(io, tokens, environment)
    const { command, rest } = findCommand(wordsOf(tokens), tree)
    if (command.printsText) screen = openScreenFor(io, tokens, environment, 'text')
    const given = parseArguments(command, rest, tokens, tree)
    if (screen.format === 'env' && !command.printsEnv) throw noEnv(command.path)
    context = {
      tree,
      command: command.path,
      given,
      cwd,
      environment,
      stdin: io.stdin,
      stderr: io.stderr,
      screen,
      interruption,
      temporaryFiles,
      connections,
      connection: null,
    }
    const runCommand = await command.load()
    const answer = await runCommand(context)
    screen.answer(answer)
    if (answer.isFailure) exitCode = 1
  } catch (error) {
    if (error instanceof Interrupted || wasInterrupted()) exitCode = 130
    else {
      printFailure(error, screen, context?.command ?? wordsOf(tokens).join(' '), context)
      exitCode = 1
    }
  }
  for (const each of connections) each.destroy()
  if (context) await compareVersions(context, ownVersion)
  return exitCode
}

function printFailure(error: unknown, screen: Screen, command: string, context: Context | null): void {
  const failure = explain(error, context ?? { connection: null })
  screen.failure(command, failure)
  screen.debug(String(failure.stack))
  for (let cause = failure.cause; cause instanceof Error; cause = cause.cause)
    screen.debug(`caused by ${cause.stack}`)
}

function noEnv(path: string): Failure {
  const fix = 'Use --output text or --output json.'
  return new Failure('usage_invalid_value', `plinth ${path} does not support --output env.`, fix)
}

/** §9: one line on stderr when the server has another version. The answer is printed by now, so this waits briefly. */
async function compareVersions({ connection, screen }: Context, ours: string): Promise<void> {
  if (!connection) return
  const { serverVersion, abandon, url } = connection
  const timeout = setTimeout(abandon, 500)
  const theirs = await serverVersion
  clearTimeout(timeout)
  if (theirs && theirs !== ours)
    screen.warn(`plinth is version ${ours}, the platform at ${url} is ${theirs}.`)
}

/**
 * Reads only the flags about output, so that errors in the command line are printed in the requested format.
 */
function openScreenFor(
  io: Io,
  tokens: readonly Token[],
  environment: Environment,
  fallback?: Format,
): Screen {
  return openScreen(io, {
    format: requestedFormat(tokens, environment) ?? fallback ?? (io.stdout.isTTY ? 'text' : 'json'),
    hasColor: !hasFlag(tokens, 'no-color') && !environment['NO_COLOR'],
    isDebug: hasFlag(tokens, 'debug'),
  })
}

function requestedFormat(tokens: readonly Token[], environment: Environment): Format | undefined {
  const token = tokens.findLast(each => each.kind === 'flag' && each.flag?.name === 'output')
  const flag = token?.kind === 'flag' ? token.value : undefined
  if (flag === 'text' || flag === 'json' || flag === 'env') return flag
  const variable = environment['PLATFORM_OUTPUT']
  return variable === 'text' || variable === 'json' ? variable : undefined
}
