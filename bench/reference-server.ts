// Servers of other products as references of a benchmark: each has a database of its own on the Postgres of the platform,
// and gets the same load in turn.
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { guardedSettings, withClient } from '../apps/server/src/kernel/postgres/database.ts'
import type { ServerAddress } from '../apps/server/src/kernel/postgres/server-address.ts'
import { compare, interleave } from './measure.ts'
import type { StagedServer } from './stage.ts'
import { type LoadRequest, loaded } from './wrk.ts'

const warmUpSeconds = 3
const connections = 32
const maxWaitMs = 5000

export async function createDatabase(
  address: ServerAddress,
  database: string,
  statements: readonly string[],
): Promise<void> {
  await withClient(address, 'postgres', guardedSettings, session =>
    session.script(`create database ${database} template template0`),
  )
  await withClient(address, database, {}, async session => {
    for (const statement of [...statements, 'vacuum analyze']) await session.script(statement)
  })
}

interface Side {
  server: StagedServer
  request: LoadRequest
}

/** The requests per second of ours, as a ratio to those of the reference. */
export async function compareThroughput(
  sides: { ours: Side; reference: Side },
  options: { rounds: number; seconds: number; postmaster: number; file(name: string): string },
) {
  const load = (side: keyof typeof sides, seconds = options.seconds) => {
    const { server, request } = sides[side]
    const file = options.file(`${side}.lua`)
    return loaded(server, options.postmaster, request, { file, seconds, connections })
  }
  await load('ours', warmUpSeconds)
  await load('reference', warmUpSeconds)
  const contenders = {
    // Connections are closed while the other one runs.
    ours: () => load('ours', 1).then(() => load('ours')),
    reference: () => load('reference', 1).then(() => load('reference')),
  }
  const samples = await interleave(options.rounds, contenders, maxWaitMs)
  return compare(samples.ours, samples.reference, each => each['per_second']!)
}

export async function waitUntilReady(name: string, url: string, hasEnded: () => boolean): Promise<void> {
  for (let tries = 0; tries < 300; tries++) {
    if (hasEnded()) throw new Error(`${name} ended while starting`)
    const reply = await fetch(url).catch(() => undefined)
    await reply?.arrayBuffer()
    if (reply) return
    await sleep(100)
  }
  throw new Error(`${name} did not start`)
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
