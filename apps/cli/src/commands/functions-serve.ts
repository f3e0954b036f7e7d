// Runs functions on this machine.
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { checkedName, entrypointOf, functionsFolder, functionsIn } from '../functions/folder.ts'
import { findDeno } from '../functions/local/deno.ts'
import { type LinkedProject, linkedProject } from '../functions/local/project.ts'
import { type Answered, type LocalServer, startServer } from '../functions/local/server.ts'
import { watchFunctions } from '../functions/local/watch.ts'
import type { OutputLine, Variables } from '../functions/local/worker.ts'
import { createWorkers, type Workers } from '../functions/local/workers.ts'
import { textLine } from '../functions/log-line.ts'
import { clean } from '../print.ts'

interface Folder {
  /** Without symbolic links, because Deno compares resolved paths. */
  root: string
  shown: string
  /** The only function to serve. */
  only: string | undefined
}

export async function serve(context: Context): Promise<Answer> {
  const { given, screen } = context
  const folder = folderIn(context)
  const port = portIn(given.values['port'])
  const envFile = envFileIn(context, folder)
  const deno = findDeno(context.environment)
  const signal = context.interruption()
  const project = await linkedProject(context)
  const needsCredential = project !== null && !given.switches.has('no-verify-jwt')
  if (!needsCredential && !given.switches.has('no-verify-jwt'))
    screen.hint('Credentials are not checked, because that needs a project.')

  const directory = mkdtempSync(join(temporaryFolder(), 'plinth-fn-'))
  const workers = createWorkers({
    deno,
    root: folder.root,
    only: folder.only,
    directory,
    variables: () => variablesOf(envFile, project),
    onLine: (name, line) => printOutput(context, name, line),
  })
  let stopWatching = () => {}
  let server: LocalServer | undefined
  try {
    server = await listen(context, folder, { port, project, needsCredential, workers })
    stopWatching = watch(context, folder, envFile, workers)
    const names = namesIn(folder).join(', ')
    screen.step(clean(`Serving ${names} at ${server.origin}/functions/v1/<name>. Press Ctrl-C to end.`))
    await interruptionOf(signal)
  } finally {
    stopWatching()
    await server?.close()
    await workers.close()
    rmSync(directory, { recursive: true, force: true })
  }
  return { data: null, text: () => '', wasStreamed: true }
}

/** Deno opens nothing in /dev, /proc and /sys for functions, not even in /dev/shm. */
function temporaryFolder(): string {
  const usual = realpathSync(tmpdir())
  return /^\/(dev|proc|sys)\//.test(usual) ? '/tmp' : usual
}

function folderIn({ cwd, given }: Context): Folder {
  const shown = given.values['path'] ?? functionsFolder(cwd)
  const name = given.operands['name']
  const only = name === undefined ? undefined : checkedName(name)
  if (!existsSync(resolve(cwd, shown)))
    throw new Failure(
      'folder_missing',
      `There is no folder ${shown}.`,
      `plinth functions new ${only ?? '<name>'} writes a function; --path names another folder.`,
    )
  const root = realpathSync(resolve(cwd, shown))
  if (only !== undefined && entrypointOf(root, only) === undefined)
    throw new Failure(
      'function_missing',
      `There is no function ${only} in ${shown}: ${join(shown, only, 'index.ts')} does not exist.`,
      `plinth functions new ${only} writes it; --path names another folder.`,
    )
  const folder = { root, shown, only }
  if (namesIn(folder).length > 0) return folder
  throw new Failure(
    'function_missing',
    `There are no functions in ${shown}: no folder there has an index.ts.`,
    'plinth functions new <name> writes one; --path names another folder.',
  )
}

const namesIn = ({ root, only }: Folder): string[] => (only === undefined ? functionsIn(root) : [only])

function portIn(text = '8888'): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text)
  throw new Failure('usage_invalid_value', `--port cannot be "${text}": it must be a number from 0 to 65535.`)
}

function envFileIn({ cwd, given }: Context, { root }: Folder): string | undefined {
  const named = given.values['env-file']
  if (named === undefined) {
    const usual = join(root, '.env')
    return existsSync(usual) ? usual : undefined
  }
  const path = resolve(cwd, named)
  if (existsSync(path)) return path
  throw new Failure('file_unreadable', `There is no file ${named}.`, 'Name another with --env-file.')
}

/** As on the platform, secrets do not replace the variables of the project. */
function variablesOf(envFile: string | undefined, project: LinkedProject | null): Variables {
  const secrets = envFile === undefined ? {} : parseEnv(readFileSync(envFile, 'utf8'))
  return {
    project: project?.id ?? localProject,
    secrets: secrets as Record<string, string>,
    platform: { ...project?.variables, SB_REGION: 'local' },
  }
}
const localProject = 'local'

interface Listening {
  port: number
  project: LinkedProject | null
  needsCredential: boolean
  workers: Workers
}

async function listen(
  context: Context,
  folder: Folder,
  { port, project, needsCredential, workers }: Listening,
): Promise<LocalServer> {
  const nobody = { role: 'anon', userId: '' }
  try {
    return await startServer({
      port,
      projectId: project?.id ?? localProject,
      findWorker: workers.find,
      names: () => namesIn(folder),
      async admit(headers, query) {
        if (!needsCredential) return (await project?.identify(headers, query).catch(() => null)) ?? nobody
        const caller = (await project?.identify(headers, query)) ?? null
        return caller?.role === 'anon' ? null : caller
      },
      onAnswered: call => printAnswered(context, call),
      onFailure: (name, message) => printOutput(context, name, { level: 'error', message, requestId: null }),
    })
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    const why = code === 'EADDRINUSE' ? 'another program listens there' : message
    throw new Failure(
      'port_unavailable',
      `Port ${port} of 127.0.0.1 cannot be used: ${why}.`,
      'Choose another with --port.',
      cause,
    )
  }
}

function watch(
  { screen }: Context,
  { root }: Folder,
  envFile: string | undefined,
  workers: Workers,
): () => void {
  return watchFunctions({
    root,
    envFile,
    onChange(path) {
      workers.retireAll()
      screen.step(clean(`${path} has changed. The next call loads the functions again.`))
    },
    onError: error => screen.warn(`Changes of files are not noticed any more: ${error.message}.`),
  })
}

const interruptionOf = (signal: AbortSignal) =>
  new Promise<void>(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve())
  })

const timeNow = () => new Date().toISOString()

function printOutput({ screen }: Context, name: string, { level, message, requestId }: OutputLine): void {
  const timestamp = timeNow()
  screen.item({
    data: { kind: 'log', timestamp, function: name, level, message, request_id: requestId },
    text: paint => textLine(paint, timestamp, level, `${name}: ${message}`),
  })
}

function printAnswered({ screen }: Context, call: Answered): void {
  const { name, method, path, status, milliseconds, requestId } = call
  const timestamp = timeNow()
  screen.item({
    data: {
      kind: 'request',
      timestamp,
      function: name,
      method,
      path,
      status,
      duration_ms: milliseconds,
      request_id: requestId,
    },
    text: paint =>
      textLine(paint, timestamp, 'info', `${name}: ${method} ${path} ${status} in ${milliseconds} ms`),
  })
}
