// The program that runs in a worker. It starts with more rights than it keeps, gives them back, and then serves calls of
// functions on a Unix socket. The code of a function is loaded at its first call.
import { confine, type Limits } from './confinement.ts'
import { captureConsole, describeError, log, setCodeDir } from './console.ts'
import { deno, type Handler } from './deno.ts'
import { provideEnvironment, provideNodeEnvironment } from './environment.ts'
import { captureServe, handlerOf } from './functions.ts'
import { currentInvocation, type Invocation, runIn } from './invocation.ts'
import { type LinkedRequest, serveLink } from './link.ts'
import { send } from './messages.ts'
import { providePlatform, refuseProxies } from './platform-access.ts'
import { provideTemporaryFiles } from './temporary-files.ts'

interface Settings {
  /** Where calls are served as frames, if the platform sends any. */
  readonly linkSocket?: string
  /** Where calls are served over HTTP, which WebSockets need. */
  readonly socket: string
  /** Where the platform serves the project's own API. Absent in `plinth functions serve`, where functions use the network. */
  readonly platformSocket?: string
  readonly baseUrl: string
  /** The directory of the project's code, whose path is not shown in the log. */
  readonly codeDir: string
  /** Its temporary directory. */
  readonly temporary: string
  /** Limits of the process, in bytes and files. */
  readonly limits: Limits
}

/** A line on the standard input: the variables of a project. */
interface Variables {
  readonly project: string
  readonly secrets: Readonly<Record<string, string>>
  readonly platform: Readonly<Record<string, string>>
  readonly first?: FirstFunction
}

/** The function for whose call the worker was started. It is loaded before the call arrives. */
interface FirstFunction {
  readonly name: string
  readonly version: string
  readonly entry: string
  readonly usesNode: boolean
}

interface Project {
  readonly id: string
  readonly secrets: Readonly<Record<string, string>>
  readonly env: Map<string, string>
}

const settings = JSON.parse(deno.args[0] ?? '') as Settings
const projects = new Map<string, Promise<Project>>()
const arrivals = new Map<string, (project: Project) => void>()
/** The project of a worker that serves only one. */
let single: Project | undefined
let pendingBackground = 0
let first: { project: string; function: FirstFunction } | undefined

const serve = deno.serve.bind(deno)
const upgradeWebSocket = deno.upgradeWebSocket.bind(deno)
const originals = new WeakMap<Request, Request>()

/** Resolves when the platform has sent the variables of the project. */
function projectOf(id: string): Promise<Project> {
  const known = projects.get(id)
  if (known) return known
  const { promise, resolve } = Promise.withResolvers<Project>()
  projects.set(id, promise)
  arrivals.set(id, resolve)
  return promise
}

function arrive({ project, secrets, platform, first: named }: Variables): void {
  if (named) first = { project, function: named }
  const arrived: Project = {
    id: project,
    secrets: Object.freeze(secrets),
    env: new Map(Object.entries({ ...secrets, ...platform })),
  }
  single = arrived
  const resolve = arrivals.get(project)
  arrivals.delete(project)
  if (resolve) resolve(arrived)
  else projects.set(project, Promise.resolve(arrived))
}

const decoder = new TextDecoder()
let rest = ''

function take(bytes: Uint8Array): void {
  const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
  rest = lines.pop() ?? ''
  for (const line of lines) arrive(JSON.parse(line) as Variables)
}

/** The platform sends the first line together with the start. Waiting for it with a stream would take longer. */
function readFirstVariables(): void {
  const bytes = new Uint8Array(64 * 1024)
  while (single === undefined) {
    const count = deno.stdin.readSync(bytes)
    if (count === null) return deno.exit(0)
    take(bytes.subarray(0, count))
  }
}

async function readFurtherVariables(): Promise<void> {
  const bytes = new Uint8Array(64 * 1024)
  for (let count = await deno.stdin.read(bytes); count !== null; count = await deno.stdin.read(bytes))
    take(bytes.subarray(0, count))
  // The platform has ended.
  deno.exit(0)
}

/** Headers of the platform that are only for the host. */
const internalNames = new Set([
  'x-platform-entry',
  'x-platform-url',
  'x-platform-client-address',
  'x-platform-uses-node',
])
const ownPrefix = 'x-platform-'

interface Received {
  /** What the platform says of the call, without the prefix of the names. */
  readonly own: ReadonlyMap<string, string>
  /** What the function sees. Not as `Headers`, from which Deno makes requests three times slower. */
  readonly headers: [string, string][]
}

function receive(pairs: Iterable<readonly [string, string]>): Received {
  const own = new Map<string, string>()
  const headers: [string, string][] = []
  for (const [name, value] of pairs) {
    if (name.startsWith(ownPrefix)) own.set(name.slice(ownPrefix.length), value)
    if (!internalNames.has(name)) headers.push([name, value])
  }
  return { own, headers }
}

function* pairsOf(alternating: readonly string[]): Generator<readonly [string, string]> {
  for (let at = 0; at < alternating.length; at += 2) yield [alternating[at]!, alternating[at + 1]!]
}

const answerCall = ({ method, headers, body, signal }: LinkedRequest): Promise<Response> =>
  answer(receive(pairsOf(headers)), (url, all) => {
    const isStream = body instanceof ReadableStream
    return new Request(url, {
      method,
      headers: all,
      body: mayHaveBody(method) ? body : null,
      signal,
      ...(isStream && { duplex: 'half' }),
    } as RequestInit)
  })

/** A client may send one anyway, but a `Request` cannot have it. */
const mayHaveBody = (method: string) => method !== 'GET' && method !== 'HEAD'

/** Functions get a copy of the request, with the URL that was called, but only the original one can be upgraded. */
const answerHttp = (original: Request): Promise<Response> =>
  answer(receive(original.headers), (url, headers) => {
    const { method, body, signal } = original
    const request = new Request(url, {
      method,
      headers,
      body,
      signal,
      ...(body && { duplex: 'half' }),
    } as RequestInit)
    originals.set(request, original)
    return request
  })

async function answer(
  { own, headers }: Received,
  makeRequest: (url: string, headers: [string, string][]) => Request,
): Promise<Response> {
  const read = (name: string) => own.get(name) ?? ''
  // The platform asks whether the event loop still runs.
  if (own.has('ping')) return new Response(null, { status: 204 })
  const id = read('project-id')
  const project = single?.id === id ? single : await projectOf(id)
  const invocation: Invocation = {
    project: id,
    name: read('function'),
    version: read('function-version'),
    requestId: read('request-id'),
    env: project.env,
  }
  let handler: Handler
  try {
    handler = await load(read('entry'), own.has('uses-node'), { ...invocation, requestId: '' })
  } catch (error) {
    log('error', describeError(error), invocation)
    return failure('boot')
  }
  try {
    const request = makeRequest(read('url'), headers)
    Object.defineProperty(request, 'platform', {
      value: {
        projectId: id,
        function: invocation.name,
        version: Number(invocation.version),
        role: read('role'),
        user: own.get('user-id') ?? null,
        requestId: invocation.requestId,
        secrets: project.secrets,
      },
    })
    const info = {
      remoteAddr: { transport: 'tcp', hostname: read('client-address'), port: 0 },
      completed: Promise.resolve(),
    }
    const response = await runIn(invocation, () => handler(request, info))
    if (response instanceof Response) return response
    throw new TypeError('The handler returned no Response')
  } catch (error) {
    log('error', describeError(error), invocation)
    return failure(isOutOfMemory(error) ? 'memory' : 'error')
  }
}

async function load(entry: string, usesNode: boolean, invocation: Invocation): Promise<Handler> {
  if (usesNode) await provideNodeEnvironment()
  return handlerOf(entry, invocation)
}

const isOutOfMemory = (error: unknown) =>
  error instanceof RangeError && /allocation failed/i.test(error.message)

const failure = (outcome: 'boot' | 'error' | 'memory') =>
  new Response(null, { status: 500, headers: { 'x-platform-outcome': outcome } })

function provideWaitUntil(): void {
  const count = (change: 1 | -1) => {
    pendingBackground += change
    send({ type: 'background', pending: pendingBackground })
  }
  const waitUntil = (promise: Promise<unknown>) => {
    const invocation = currentInvocation()
    count(1)
    void Promise.resolve(promise)
      .catch(error => log('error', describeError(error), invocation))
      .finally(() => count(-1))
    return promise
  }
  Object.defineProperty(globalThis, 'EdgeRuntime', { value: { waitUntil } })
}

/** An error that nothing catches must not end the other calls of the project. */
function reportUncaught(): void {
  const events = globalThis as unknown as EventTarget
  events.addEventListener('unhandledrejection', event => {
    event.preventDefault()
    log('error', `Uncaught (in promise) ${describeError((event as Event & { reason: unknown }).reason)}`)
  })
  events.addEventListener('error', event => {
    event.preventDefault()
    log('error', `Uncaught ${describeError((event as Event & { error: unknown }).error)}`)
  })
}

// While it still may listen. Calls arrive only after `ready`.
const sockets = [settings.socket]
if (settings.linkSocket !== undefined) {
  sockets.push(settings.linkSocket)
  void serveLink(settings.linkSocket, {
    answer: answerCall,
    headRefused(why) {
      log('error', why)
      return failure('error')
    },
    bodyFailed: error => log('error', `The body of the answer failed: ${describeError(error)}`),
  })
}
serve({ path: settings.socket, onListen() {} }, answerHttp)
confine(settings.limits, settings.platformSocket)
captureConsole()
setCodeDir(settings.codeDir)
if (settings.platformSocket !== undefined) providePlatform(settings.baseUrl, settings.platformSocket)
refuseProxies()
provideEnvironment(() => single?.env ?? new Map())
provideTemporaryFiles(settings.temporary, [settings.codeDir])
provideWaitUntil()
readFirstVariables()
for (const name of ['read', 'write'] as const)
  for (const path of sockets) deno.permissions.revokeSync({ name, path })
captureServe()
Object.defineProperty(deno, 'upgradeWebSocket', {
  value: (request: Request, options?: object) => upgradeWebSocket(originals.get(request) ?? request, options),
})
// Only now, so that a failure above ends the process.
reportUncaught()
send({ type: 'ready' })
if (first) {
  const { entry, usesNode, name, version } = first.function
  const invocation = {
    project: first.project,
    name,
    version,
    requestId: '',
    env: single!.env,
  }
  // A failure is that of the call as well, which reports it.
  load(entry, usesNode, invocation).catch(() => {})
}
void readFurtherVariables()
