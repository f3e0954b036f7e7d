// Large files over HTTP, encrypted and decrypted, against a plain node:http server of plain files, in bytes per second of
// CPU. The CPU of Postgres counts on our side. Options: --rounds, --seconds, --patience,
// --only=download1,download100,upload1,upload40, --profile=<directory>.
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { compare, cpuMicros, familyCpuMicros, interleave, report, type Sample } from './measure.ts'
import { startNginx } from './nginx.ts'
import { runToEnd } from './run-to-end.ts'
import { onStage, type StagedServer } from './stage.ts'
import {
  digest,
  megabyte,
  type PlainFiles,
  type StorageStage,
  send,
  stageStorage,
  startPlainFiles,
} from './storage-stage.ts'
import type { UploadLoad, UploadResult } from './upload-client.ts'
import { wrk } from './wrk.ts'

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '3' },
    patience: { type: 'string', default: '5' },
    only: { type: 'string', default: 'download1,download100,upload1,upload40' },
    profile: { type: 'string' },
  },
})
const roundSeconds = Number(given.seconds)
const atLeast = 0.5
const uploadClient = fileURLToPath(new URL('upload-client.ts', import.meta.url))

interface Subject {
  name: string
  bytes: number
  connections: number
  /** The minimum length of a round, for slow subjects of which a shorter round would have too few. */
  atLeastSeconds?: number
  load: (side: Side, subject: Subject, file: string, seconds: number) => Promise<Done>
}
const subjects: Record<string, Subject> = {
  download1: { name: 'download of 1 MB', bytes: megabyte, connections: 16, load: download },
  download100: {
    name: 'download of 100 MB',
    bytes: 100 * megabyte,
    connections: 2,
    atLeastSeconds: 4,
    load: download,
  },
  upload1: { name: 'upload of 1 MB', bytes: megabyte, connections: 8, load: upload },
  upload40: { name: 'upload of 40 MB', bytes: 40 * megabyte, connections: 4, load: upload },
}

/** A server, and the CPU it has used so far. */
interface Side {
  url: string
  headers: Record<string, string>
  pathOf(name: string): string
  cpu(): { server: number; postgres: number }
}

interface Done {
  operations: number
  bytes: number
  perSecond: number
  clientCpuMicros: number
}

await onStage(async stage => {
  const storage = await stageStorage(stage)
  const platform = await storage.start(given.profile ? ['--cpu-prof', `--cpu-prof-dir=${given.profile}`] : [])
  const plain = await startPlainFiles(stage)
  const nginx = await startNginx(plain.directory, stage.dataDir('nginx'))
  try {
    for (const name of given.only.split(',')) {
      const subject = subjects[name]
      if (!subject) throw new Error(`unknown subject ${name}`)
      if (subject.load === download) await storeFiles(storage, platform, plain, subject)
      await measure(subject, storage.file('bench.lua'), sidesOf(storage, platform, plain, nginx))
    }
  } finally {
    await nginx?.stop()
    await platform.stop()
  }
})

type Sides = { ours: Side; plain: Side; nginx?: Side }

function sidesOf(
  storage: StorageStage,
  platform: StagedServer,
  plain: PlainFiles,
  nginx: StagedServer | undefined,
): Sides {
  const { headers, pathOf } = storage
  const { postmaster } = storage.postgres()
  const cpu = () => ({ server: cpuMicros(platform.pid), postgres: familyCpuMicros(postmaster) })
  const plainSide = ({ url, pid }: StagedServer): Side => ({
    url,
    headers: {},
    pathOf: name => `/${name}`,
    cpu: () => ({ server: familyCpuMicros(pid), postgres: 0 }),
  })
  return {
    ours: { url: platform.url, headers, pathOf, cpu },
    plain: plainSide(plain),
    ...(nginx && { nginx: plainSide(nginx) }),
  }
}

/** Both sides store the same bytes and return them. */
async function storeFiles(
  storage: StorageStage,
  platform: StagedServer,
  plain: PlainFiles,
  { name, bytes: length }: Subject,
): Promise<void> {
  const bytes = randomBytes(length)
  await storage.store(platform, fileOf(name), bytes)
  writeFileSync(join(plain.directory, fileOf(name)), bytes)
  const urls = [platform.url + storage.pathOf(fileOf(name)), `${plain.url}/${fileOf(name)}`]
  for (const url of urls) {
    const reply = await send('GET', url, url === urls[0] ? storage.headers : {})
    if (digest(Buffer.from(await reply.arrayBuffer())) !== digest(bytes))
      throw new Error(`${url} does not return the stored bytes`)
  }
}

function secondsOf({ atLeastSeconds = 0 }: Subject): number {
  return Math.max(roundSeconds, atLeastSeconds)
}

function fileOf(subject: string): string {
  return subject.replaceAll(' ', '-')
}

async function measure(subject: Subject, file: string, { ours, plain, nginx }: Sides): Promise<void> {
  const seconds = secondsOf(subject)
  const measureRound = (side: Side) => async () => {
    // Not counted: after a pause, connections are opened and statements prepared again. Negligible for a large file.
    if (!subject.atLeastSeconds) await subject.load(side, subject, file, 1)
    return measureCost(side, () => subject.load(side, subject, file, seconds))
  }
  const contenders: Record<string, () => Promise<Sample>> = {
    ours: measureRound(ours),
    plain: measureRound(plain),
  }
  if (nginx && subject.load === download) contenders['nginx'] = measureRound(nginx)
  // The JIT has not compiled a new platform yet.
  for (let count = 0; count < 2; count++) await contenders['ours']!()
  for (const each of Object.values(contenders)) await each()
  const samples = await interleave(Number(given.rounds), contenders, Number(given.patience) * 1000)
  const [measured, reference] = [samples['ours']!, samples['plain']!]
  reportResult(subject, measured, reference, 'a plain node:http server', { target: { atLeast } })
  if (samples['nginx']) reportResult(subject, measured, samples['nginx'], 'nginx', {})
}

async function measureCost({ cpu }: Side, load: () => Promise<Done>): Promise<Sample> {
  const before = cpu()
  const { operations, bytes, perSecond, clientCpuMicros } = await load()
  const after = cpu()
  const server = after.server - before.server
  const postgres = after.postgres - before.postgres
  return {
    mb_per_cpu_second: bytes / (server + postgres),
    per_second: perSecond,
    server_cpu_us: server / operations,
    postgres_cpu_us: postgres / operations,
    client_cpu_us: clientCpuMicros / operations,
  }
}

async function download(side: Side, subject: Subject, file: string, seconds: number): Promise<Done> {
  const { connections } = subject
  const request = { path: side.pathOf(fileOf(subject.name)), headers: side.headers }
  const { requests, bytes, perSecond, cpuMicros } = await wrk(side.url, request, {
    file,
    seconds,
    connections,
  })
  // The bytes include those of transfers that were cut at the end, so these count as fractions of operations.
  const operations = (bytes * requests) / subject.bytes
  const share = operations / requests
  return { operations, bytes: bytes * requests, perSecond: perSecond * share, clientCpuMicros: cpuMicros }
}

/** Each connection replaces its own file repeatedly, so that the disk does not fill up. */
async function upload(
  side: Side,
  { name, bytes, connections }: Subject,
  _file: string,
  seconds: number,
): Promise<Done> {
  const input: UploadLoad = {
    url: `${side.url}${side.pathOf(fileOf(name))}`,
    headers: side.headers,
    bytes,
    connections,
    seconds,
  }
  const { stdout, cpuMicros } = await runToEnd(process.execPath, [uploadClient, JSON.stringify(input)])
  const done = JSON.parse(stdout) as UploadResult
  return {
    operations: done.uploads,
    bytes: done.uploads * bytes,
    perSecond: done.uploads / done.seconds,
    clientCpuMicros: cpuMicros,
  }
}

function reportResult(
  subject: Subject,
  ours: Sample[],
  other: Sample[],
  against: string,
  goal: { target?: { atLeast: number } },
): void {
  const bytes = compare(ours, other, each => each['mb_per_cpu_second']!)
  report({
    bench: 'storage',
    subject: subject.name,
    ...goal,
    measured: bytes.ratio,
    unit: `of the bytes per CPU second of ${against}`,
    range: bytes.range,
    ours: bytes.measured,
    reference: bytes.reference,
    connections: subject.connections,
    rounds: bytes.rounds,
    round_seconds: secondsOf(subject),
  })
}
