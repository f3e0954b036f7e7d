// Cache get and set over HTTP in both engines against the platform's own empty authenticated route, each in the same
// process as its reference, in the same run. Options: --rounds, --seconds, --patience, --engine, --profile.
import { parseArgs } from 'node:util'
import { startRedis } from '../apps/server/test/redis-server.ts'
import { compare, cpuMicros, interleave, report, type Sample } from './measure.ts'
import { onStage, projectsAt, type StagedServer, startMain } from './stage.ts'
import { type LoadScript, luaText, usualHeaders, wrk } from './wrk.ts'

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '2' },
    patience: { type: 'string', default: '5' },
    engine: { type: 'string', multiple: true, default: ['memory', 'redis'] },
    profile: { type: 'string' },
  },
})
const rounds = Number(given.rounds)
const seconds = Number(given.seconds)
const connections = 32
const atLeast = 0.8
const keys = 10_000
const value = 'v'.repeat(100)
const randomKey = `string.format("key%05d", math.random(0, ${keys - 1}))`
const unlimited = { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0', PLATFORM_LOG_LEVEL: 'silent' }

await onStage(async stage => {
  const engine = await stage.engine()
  for (const name of given.engine) {
    const redis = name === 'redis' ? await startRedis() : undefined
    try {
      const env = { ...engine.env, ...unlimited, ...(redis && { REDIS_URL: redis.url }) }
      const profiling = given.profile ? ['--cpu-prof', `--cpu-prof-dir=${given.profile}`] : []
      const platform = await startMain(stage, env, undefined, profiling)
      const project = await projectsAt(platform.url, engine.adminToken).create({ body: { name } })
      const samples = await measure(
        platform,
        project,
        redis?.pid(),
        `${stage.dataDir(`wrk-${name}`)}/load.lua`,
      )
      await platform.stop()
      for (const operation of ['get', 'set'] as const)
        reportResult(name, operation, samples[operation], samples.whoami)
    } finally {
      await redis?.stop()
    }
  }
})

async function measure(
  platform: StagedServer,
  project: { id: string; service_role_key: string },
  redis: number | undefined,
  file: string,
): Promise<Record<'whoami' | 'get' | 'set', Sample[]>> {
  const cache = `/v1/cache/${project.id}`
  const headers = { authorization: `Bearer ${project.service_role_key}` }
  const pairs = Object.fromEntries(Array.from({ length: keys }, (_, number) => [keyOf(number), value]))
  const filled = await fetch(`${platform.url}${cache}/mset`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ pairs }),
  })
  if (filled.status !== 200) throw new Error(`mset answered ${filled.status}: ${await filled.text()}`)

  const whoami = loadOf('GET', `/v1/whoami/${project.id}`, headers)
  const get = loadOf('GET', `${cache}/get/{key}`, headers)
  const set = loadOf(
    'POST',
    `${cache}/set`,
    { ...headers, 'content-type': 'application/json' },
    JSON.stringify({ key: '{key}', value }),
  )
  const load = async (request: LoadScript, forSeconds: number): Promise<Sample> => {
    const before = { node: cpuMicros(platform.pid), redis: redis ? cpuMicros(redis) : 0 }
    const done = await wrk(platform.url, request, { file, seconds: forSeconds, connections })
    return {
      per_second: done.perSecond,
      node_cpu_us: (cpuMicros(platform.pid) - before.node) / done.requests,
      ...(redis && { redis_cpu_us: (cpuMicros(redis) - before.redis) / done.requests }),
      client_cpu_us: done.cpuMicros / done.requests,
      p50_ms: done.p50Ms,
      p99_ms: done.p99Ms,
    }
  }
  for (const request of [whoami, get, set, whoami, get, set]) await load(request, 2)
  return interleave(
    rounds,
    { whoami: () => load(whoami, seconds), get: () => load(get, seconds), set: () => load(set, seconds) },
    Number(given.patience) * 1000,
  )
}

function reportResult(engine: string, operation: string, ours: Sample[], whoami: Sample[]): void {
  const throughput = compare(ours, whoami, each => each['per_second']!)
  report({
    bench: 'cache',
    subject: `${operation}, ${engine}`,
    target: { atLeast },
    measured: throughput.ratio,
    unit: 'of the throughput of whoami',
    range: throughput.range,
    cpu_ratio: compare(whoami, ours, each => each['node_cpu_us']!).ratio,
    ours: throughput.measured,
    whoami: throughput.reference,
    rounds: throughput.rounds,
    round_seconds: seconds,
  })
}

/** All keys have the same length, so that the length of a request is known in advance. */
function keyOf(number: number): string {
  return `key${String(number).padStart(5, '0')}`
}

/** `{key}` is a random key for each request. */
function loadOf(method: string, path: string, headers: Record<string, string>, body = ''): LoadScript {
  return {
    path,
    lua(url) {
      const length = Buffer.byteLength(body.replace('{key}', keyOf(0)))
      const all = {
        host: new URL(url).host,
        ...usualHeaders,
        ...headers,
        ...(body !== '' && { 'content-length': String(length) }),
      }
      const lines = Object.entries(all).map(([name, text]) => `${name}: ${text}`)
      const [before, after] = `${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`.split(
        '{key}',
      )
      return `
local before, after = ${luaText(before!)}, ${luaText(after ?? '')}
function init() math.randomseed(os.time()) end
function request() return before .. ${after === undefined ? "''" : randomKey} .. after end
`
    },
  }
}
