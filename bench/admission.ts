// Admission and an empty authenticated answer of the data plane against Fastify's own empty route: server CPU
// per request under wrk, with the same request headers.
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { fileURLToPath } from 'node:url'
import { signJwt } from '../apps/server/src/kernel/crypto/jwt.ts'
import { compare, cpuMicros, endedChildrenCpuMicros, interleave, report, type Sample } from './measure.ts'
import { onStage, projectsAt, type StagedServer, startMain } from './stage.ts'

// The cost of a request differs by up to a sixth between two processes with the same code, for as long as they run.
// So every contender is restarted several times. Rounds are short, so that some are hardly disturbed.
const generations = 5
const roundsEach = 4
const roundSeconds = 1
const warmUpSeconds = 2
const connections = 32

const limits = (requests: string) => ({
  PLATFORM_RATE_LIMIT_ANON: requests,
  PLATFORM_RATE_LIMIT_AUTHENTICATED: requests,
  PLATFORM_RATE_LIMIT_SERVICE_ROLE: requests,
})
const unlimited = limits('0')
const limited = limits('1000000000')
const silent = { PLATFORM_LOG_LEVEL: 'silent' }
const logging = { PLATFORM_LOG_LEVEL: 'info' }

await onStage(async stage => {
  const engine = await stage.engine()
  const setup = await startMain(stage, engine.env)
  const project = await projectsAt(setup.url, engine.adminToken).create({ body: { name: 'bench' } })
  await setup.stop()
  const seconds = Math.floor(Date.now() / 1000)
  const token = signJwt(
    { sub: '00000000-0000-4000-8000-000000000001', role: 'authenticated', iat: seconds, exp: seconds + 3600 },
    project.jwt_secret,
  )
  const path = `/v1/whoami/${project.id}`
  const anon = { apikey: project.anon_key }
  const user = { ...anon, authorization: `Bearer ${token}` }

  const platform = (settings: Record<string, string>) => startMain(stage, { ...engine.env, ...settings })
  const fastify = (env: Record<string, string>) =>
    stage.server(fileURLToPath(new URL('fastify-empty.ts', import.meta.url)), env)

  async function generation() {
    const bare = await platform({ ...silent, ...unlimited })
    const withLimits = await platform({ ...silent, ...limited })
    const withLog = await platform({ ...logging, ...unlimited })
    const withBoth = await platform({ ...logging, ...limited })
    const empty = await fastify({})
    const emptyWithLog = await fastify({ REFERENCE_LOGS: '1' })
    await warmUp([empty, emptyWithLog], '/', [anon, user])
    await warmUp([bare, withLimits, withLog, withBoth], path, [anon, user])
    const samples = await interleave(roundsEach, {
      fastify: () => load(empty, '/', anon),
      anon: () => load(bare, path, anon),
      anonWithLimits: () => load(withLimits, path, anon),
      anonWithLog: () => load(withLog, path, anon),
      anonWithBoth: () => load(withBoth, path, anon),
      fastifyWithLog: () => load(emptyWithLog, '/', anon),
      fastifyAsUser: () => load(empty, '/', user),
      user: () => load(bare, path, user),
      userWithBoth: () => load(withBoth, path, user),
    })
    for (const server of [bare, withLimits, withLog, withBoth, empty, emptyWithLog]) await server.stop()
    return samples
  }

  const samples = await generation()
  for (let count = 1; count < generations; count++)
    for (const [name, more] of Object.entries(await generation()))
      samples[name as keyof typeof samples].push(...more)

  const reportResult = (
    subject: string,
    measured: Sample[],
    reference: Sample[],
    target?: { atMost: number },
  ) => {
    const { ratio, range, rounds, ...sides } = compare(measured, reference, each => each['server_cpu_us']!)
    report({
      bench: 'admission',
      subject,
      ...(target && { target }),
      measured: ratio,
      unit: 'times its CPU',
      range,
      ours: sides.measured,
      reference: sides.reference,
      rounds,
      generations,
      round_seconds: roundSeconds,
    })
  }
  const target = { atMost: 1.5 }
  reportResult('whoami by anon key, silent, no limits', samples.anon, samples.fastify, target)
  reportResult('whoami by user token, silent, no limits', samples.user, samples.fastifyAsUser, target)
  reportResult('whoami by anon key, silent, limits on', samples.anonWithLimits, samples.fastify, target)
  reportResult('whoami by anon key, logging, no limits', samples.anonWithLog, samples.fastify, target)
  reportResult('whoami by anon key, logging, limits on', samples.anonWithBoth, samples.fastify, target)
  reportResult(
    'whoami by user token, logging, limits on',
    samples.userWithBoth,
    samples.fastifyAsUser,
    target,
  )
  reportResult(
    'whoami by anon key, logging, limits on, against Fastify with its own logger',
    samples.anonWithBoth,
    samples.fastifyWithLog,
  )
})

async function warmUp(
  servers: StagedServer[],
  path: string,
  callers: Record<string, string>[],
): Promise<void> {
  for (const { url } of servers)
    for (const headers of callers) await request(url + path, headers, warmUpSeconds)
}

async function load(
  { pid, url }: StagedServer,
  path: string,
  headers: Record<string, string>,
): Promise<Sample> {
  const before = { server: cpuMicros(pid), client: endedChildrenCpuMicros() }
  const requests = await request(url + path, headers, roundSeconds)
  return {
    server_cpu_us: (cpuMicros(pid) - before.server) / requests,
    client_cpu_us: (endedChildrenCpuMicros() - before.client) / requests,
    per_second: requests / roundSeconds,
  }
}

/** Sends requests for the given time and returns how many were answered. */
function request(url: string, headers: Record<string, string>, seconds: number): Promise<number> | number {
  const given = Object.entries(headers).flatMap(([name, value]) => ['--header', `${name}: ${value}`])
  const options = ['--threads', '1', '--connections', String(connections), '--duration', `${seconds}s`]
  const { status, stdout, stderr, error } = spawnSync('wrk', [...options, ...given, url], {
    encoding: 'utf8',
  })
  if (error) return requestWithNode(url, headers, seconds)
  const requests = Number(/(\d+) requests in/.exec(stdout)?.[1])
  if (status !== 0 || !(requests > 0) || /Non-2xx|Socket errors/.test(stdout))
    throw new Error(`wrk failed: ${stdout}${stderr}`)
  return requests
}

/** If wrk is not installed. It is slower, but the server's CPU per request is the same. */
async function requestWithNode(
  url: string,
  headers: Record<string, string>,
  seconds: number,
): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const until = performance.now() + seconds * 1000
  let requests = 0
  const one = async () => {
    const [reply] = (await once(get(url, { agent, headers }), 'response')) as [IncomingMessage]
    if (reply.statusCode !== 200) throw new Error(`${url} answered ${reply.statusCode}`)
    await once(reply.resume(), 'end')
    requests++
  }
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (performance.now() < until) await one()
    }),
  )
  agent.destroy()
  return requests
}
