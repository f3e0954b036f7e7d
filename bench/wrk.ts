// HTTP load by wrk: one request template, with a random `{id}` in its path for every request.
import { writeFileSync } from 'node:fs'
import { cpuMicros, familyCpuMicros, type Sample } from './measure.ts'
import { runToEnd } from './run-to-end.ts'
import type { StagedServer } from './stage.ts'

export const usualHeaders = { 'user-agent': 'bench', accept: '*/*' }

export interface LoadRequest {
  method?: 'GET' | 'POST'
  /** `{id}` here or in the body is a random number up to `ids`. In a body, all of them need the same number of digits. */
  path: string
  ids?: number
  /** The lowest number. Default: 1. */
  lowestId?: number
  headers: Record<string, string>
  body?: string
  /** Each request uses one of these for `{token}` in its body. The refresh token of the answer replaces it. */
  tokens?: readonly string[]
}

/** Requests that depend on earlier answers: Lua that defines `request` and `response`. */
export interface LoadScript {
  /** Its name in error messages. */
  path: string
  lua(url: string): string
}

export interface Load {
  requests: number
  perSecond: number
  /** Bytes of an answer with its head. */
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
  rejected: number
  failed: number
}

export interface LoadOptions {
  /** The directory of the script for wrk. */
  file: string
  seconds: number
  connections: number
}

/** A round of load with the CPU of all processes involved, per request. */
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

/** Fails if any answer was not a success. */
export async function wrk(
  url: string,
  request: LoadRequest | LoadScript,
  options: LoadOptions,
): Promise<Load> {
  writeFileSync(options.file, `${'lua' in request ? request.lua(url) : script(url, request)}${summaryScript}`)
  const { stdout, stderr, cpuMicros } = await runToEnd('wrk', [
    ...['--threads', '1', '--connections', String(options.connections)],
    ...['--duration', `${options.seconds}s`, '--timeout', '30s', '--script', options.file, url],
  ])
  const line = /^summary (.*)$/m.exec(stdout)?.[1]
  if (!line) throw new Error(`wrk failed: ${stdout}${stderr}`)
  const { requests, bytes, micros, p50, p99, max, rejected, failed } = JSON.parse(line) as Summary
  if (requests === 0 || rejected > 0 || failed > 0)
    throw new Error(`of ${requests} requests ${rejected} were rejected and ${failed} failed: ${request.path}`)
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

/** Builds the request as text, because wrk's own function costs as much as sending it. */
function script(url: string, request: LoadRequest): string {
  const { method = 'GET', path, ids = 1, lowestId = 1, headers, body = '', tokens } = request
  const allHeaders = { host: new URL(url).host, ...usualHeaders, ...headers }
  const lines = Object.entries(allHeaders).map(([name, value]) => `${name}: ${value}`)
  const sample = tokens ? body.replace('{token}', tokens[0]!) : body.replace('{id}', String(ids))
  if (method !== 'GET') lines.push(`content-length: ${Buffer.byteLength(sample)}`)
  const text = `${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`
  const placeholder = tokens ? '{token}' : '{id}'
  const at = text.indexOf(placeholder)
  const [before, after] = at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + placeholder.length)]
  const value = tokens ? 'take()' : at < 0 ? "''" : `math.random(${lowestId}, ${ids})`
  return `
local before, after = ${luaText(before)}, ${luaText(after)}
${tokens ? tokenQueue(tokens) : ''}
function init() math.randomseed(os.time()) end
function request() return before .. ${value} .. after end
`
}

const summaryScript = `
function done(summary, latency)
  local e = summary.errors
  print(string.format(
    'summary {"requests":%d,"bytes":%d,"micros":%d,"p50":%d,"p99":%d,"max":%d,"rejected":%d,"failed":%d}',
    summary.requests, summary.bytes, summary.duration, latency:percentile(50), latency:percentile(99),
    latency.max, e.status, e.connect + e.read + e.write + e.timeout))
end
`

/** A queue of tokens: takes the oldest and appends the token of the answer. All have the same length. */
const tokenQueue = (tokens: readonly string[]) => `
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

/** Every byte as its number, so that nothing needs escaping. */
export const luaText = (text: string) =>
  `"${[...Buffer.from(text)].map(byte => `\\${String(byte).padStart(3, '0')}`).join('')}"`
