// HTTP load by wrk: one request said once, with `{id}` in its path drawn anew for every request.
import { writeFileSync } from 'node:fs'
import { cpuMicros, familyCpuMicros, type Sample } from './measure.ts'
import { runToEnd } from './run-to-end.ts'
import type { StagedServer } from './stage.ts'

export const usualHeaders = { 'user-agent': 'bench', accept: '*/*' }

export interface LoadRequest {
  method?: 'GET' | 'POST'
  /** `{id}` stands for a random number from 1 to `ids`. */
  path: string
  ids?: number
  headers: Record<string, string>
  body?: string
  /** Each request takes one of these for `{token}` in its body, and its answer's refresh token comes back in its place. */
  tokens?: readonly string[]
}

/** Requests that follow from the answers before: Lua that defines `request` and `response`. */
export interface LoadScript {
  /** What to call it when it fails. */
  path: string
  lua(url: string): string
}

export interface Load {
  requests: number
  perSecond: number
  /** Of an answer with its head. */
  bytes: number
  p50Ms: number
  p99Ms: number
  maxMs: number
  /** CPU of wrk itself. */
  cpuMicros: number
}

interface Summary {
  requests: number
  bytes: number
  micros: number
  p50: number
  p99: number
  max: number
  refused: number
  broken: number
}

export interface LoadOptions {
  /** Where the script for wrk goes. */
  file: string
  seconds: number
  connections: number
}

/** A round of load with the CPU of everybody who takes part in it, per request. */
export async function loaded(
  server: StagedServer,
  postmaster: number,
  request: LoadRequest | LoadScript,
  options: LoadOptions,
): Promise<Sample> {
  const before = { node: cpuMicros(server.pid), postgres: familyCpuMicros(postmaster) }
  const load = await wrk(server.url, request, options)
  return {
    per_second: load.perSecond,
    node_cpu_us: (cpuMicros(server.pid) - before.node) / load.requests,
    postgres_cpu_us: (familyCpuMicros(postmaster) - before.postgres) / load.requests,
    client_cpu_us: load.cpuMicros / load.requests,
    bytes: load.bytes,
    p50_ms: load.p50Ms,
    p99_ms: load.p99Ms,
  }
}

/** Fails when a single answer was not a success. */
export async function wrk(
  url: string,
  request: LoadRequest | LoadScript,
  options: LoadOptions,
): Promise<Load> {
  writeFileSync(options.file, `${'lua' in request ? request.lua(url) : script(url, request)}${summing}`)
  const { stdout, stderr, cpuMicros } = await runToEnd('wrk', [
    ...['--threads', '1', '--connections', String(options.connections)],
    ...['--duration', `${options.seconds}s`, '--timeout', '30s', '--script', options.file, url],
  ])
  const line = /^summary (.*)$/m.exec(stdout)?.[1]
  if (!line) throw new Error(`wrk failed: ${stdout}${stderr}`)
  const { requests, bytes, micros, p50, p99, max, refused, broken } = JSON.parse(line) as Summary
  if (requests === 0 || refused > 0 || broken > 0)
    throw new Error(`of ${requests} requests ${refused} were refused and ${broken} broke: ${request.path}`)
  return {
    requests,
    perSecond: (requests / micros) * 1e6,
    bytes: bytes / requests,
    p50Ms: p50 / 1000,
    p99Ms: p99 / 1000,
    maxMs: max / 1000,
    cpuMicros,
  }
}

/** The request is put together as text: wrk's own way to do it costs as much as sending it. */
function script(url: string, request: LoadRequest): string {
  const { method = 'GET', path, ids = 1, headers, body = '', tokens } = request
  const given = { host: new URL(url).host, ...usualHeaders, ...headers }
  const lines = Object.entries(given).map(([name, value]) => `${name}: ${value}`)
  const sample = tokens ? body.replace('{token}', tokens[0]!) : body
  if (method !== 'GET') lines.push(`content-length: ${Buffer.byteLength(sample)}`)
  const text = `${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`
  const hole = tokens ? '{token}' : '{id}'
  const at = text.indexOf(hole)
  const [before, after] = at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + hole.length)]
  const drawn = tokens ? 'take()' : at < 0 ? "''" : `math.random(1, ${ids})`
  return `
local before, after = ${luaText(before)}, ${luaText(after)}
${tokens ? passing(tokens) : ''}
function init() math.randomseed(os.time()) end
function request() return before .. ${drawn} .. after end
`
}

const summing = `
function done(summary, latency)
  local e = summary.errors
  print(string.format(
    'summary {"requests":%d,"bytes":%d,"micros":%d,"p50":%d,"p99":%d,"max":%d,"refused":%d,"broken":%d}',
    summary.requests, summary.bytes, summary.duration, latency:percentile(50), latency:percentile(99),
    latency.max, e.status, e.connect + e.read + e.write + e.timeout))
end
`

/** A line of tokens: the oldest is taken, what an answer brings goes to the end. All are of one length. */
const passing = (tokens: readonly string[]) => `
local line, head, tail = { ${tokens.map(luaText).join(', ')} }, 1, ${tokens.length}
local function take()
  local token = line[head]
  line[head] = nil
  head = head + 1
  return token
end
function response(status, headers, body)
  local token = string.match(body, '"refresh_token":"([^"]+)"')
  if token then
    tail = tail + 1
    line[tail] = token
  end
end`

/** Every byte by its number: nothing to escape. */
export const luaText = (text: string) =>
  `"${[...Buffer.from(text)].map(byte => `\\${String(byte).padStart(3, '0')}`).join('')}"`
