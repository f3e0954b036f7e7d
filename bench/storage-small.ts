// Files of 1 kB up and down over HTTP as a signed-in user, against pgbench sending the statements that the platform
// sends for them. The statements are first read from the log of Postgres. Options: --rounds, --seconds, --patience,
// --only=download,upload, --profile=<directory>.
import { randomBytes, randomUUID } from 'node:crypto'
import { parseArgs } from 'node:util'
import { compare, interleave, report, type Sample } from './measure.ts'
import { pgbench, pgbenchScript } from './pgbench.ts'
import { onStage, type StagedServer } from './stage.ts'
import {
  apiLogin,
  createLedgerTables,
  get,
  put,
  readSent,
  type SentForFiles,
  scriptOf,
  textOf,
} from './storage-sql.ts'
import { type StorageStage, stageStorage } from './storage-stage.ts'
import { type LoadScript, loaded, luaText, usualHeaders } from './wrk.ts'

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '3' },
    patience: { type: 'string', default: '5' },
    only: { type: 'string', default: 'download,upload' },
    profile: { type: 'string' },
  },
})
const seconds = Number(given.seconds)
const atLeast = 0.25
const connections = 32
const fileCount = 1000
/** Only letters, so that it can be part of a script. */
const small = Buffer.from(randomBytes(768).toString('base64'))
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

interface Contenders {
  ours(): Promise<Sample>
  pgbench(): Promise<Sample>
}

await onStage(async stage => {
  const storage = await stageStorage(stage)
  const sent = await readSent(storage, small)
  const platform = await storage.start(given.profile ? ['--cpu-prof', `--cpu-prof-dir=${given.profile}`] : [])
  const subjects: Record<string, () => Promise<Contenders>> = {
    download: () => downloads(storage, platform, sent),
    upload: () => uploads(storage, platform, sent),
  }
  for (const name of given.only.split(',')) {
    const contenders = await subjects[name]!()
    for (const each of [contenders.ours, contenders.ours, contenders.pgbench]) await each()
    const samples = await interleave(
      Number(given.rounds),
      { ours: contenders.ours, pgbench: contenders.pgbench },
      Number(given.patience) * 1000,
    )
    reportResult(name, samples.ours, samples.pgbench)
  }
  await platform.stop()
})

async function downloads(
  storage: StorageStage,
  platform: StagedServer,
  sent: SentForFiles,
): Promise<Contenders> {
  for (let number = 0; number < fileCount; number++) await put(storage, platform, fileOf(number), small)
  if (!(await get(storage, platform, fileOf(0))).equals(small))
    throw new Error('a downloaded file differs from the upload')
  const request = loadOf(storage, 'GET', `math.random(0, ${fileCount - 1})`)
  // Sixteen at a time in each of two pipelines, which is the fastest mode of pgbench.
  const script = scriptOf(sent.download, value =>
    value === storage.keyOf('sent-0') ? `('${storage.keyOf('')}' || lpad(:id::text, 16, '0'))` : undefined,
  )
  return {
    ours: () => load(storage, platform, request),
    pgbench: () =>
      pgbench(
        { address: apiLogin(storage), database: storage.database, postmaster: storage.postgres().postmaster },
        {
          file: storage.file('download.sql'),
          unit: script.pipelines.flat(),
          values: script.values,
          ids: fileCount - 1,
          depth: 16,
          clients: 2,
          seconds,
          settings: { role: 'authenticated' },
        },
      ),
  }
}

async function uploads(
  storage: StorageStage,
  platform: StagedServer,
  sent: SentForFiles,
): Promise<Contenders> {
  const { postmaster } = storage.postgres()
  const { address, settings } = await createLedgerTables(storage)
  const request = loadOf(storage, 'POST', 'count()')
  const known = [storage.projectId, storage.userId]
  // Names, ids and versions are new each time, on both sides.
  const script = scriptOf(sent.upload, value => {
    if (uuid.test(value) && !known.includes(value)) return 'gen_random_uuid()'
    return value.startsWith(storage.keyOf('sent-'))
      ? `('${storage.keyOf('')}' || gen_random_uuid())`
      : undefined
  })
  return {
    ours: () => load(storage, platform, request),
    pgbench: () =>
      pgbenchScript(
        { address, database: storage.database, postmaster },
        {
          file: storage.file('upload.sql'),
          script: textOf(script),
          perRun: 1,
          values: script.values,
          clients: 16,
          seconds,
          settings,
        },
      ),
  }
}

/** The first second is not counted: after a pause, connections are opened and statements prepared again. */
async function load(storage: StorageStage, platform: StagedServer, request: LoadScript): Promise<Sample> {
  const { postmaster } = storage.postgres()
  const options = { file: storage.file('bench.lua'), connections }
  await loaded(platform, postmaster, request, { ...options, seconds: 1 })
  return loaded(platform, postmaster, request, { ...options, seconds })
}

/** All names have the same length. */
function fileOf(number: number): string {
  return String(number).padStart(16, '0')
}

/** `number` is Lua for the number in the name. Counted names belong to one run. */
function loadOf({ headers, pathOf }: StorageStage, method: 'GET' | 'POST', number: string): LoadScript {
  return {
    path: `${method} of a small file`,
    lua(url) {
      const path = pathOf(method === 'GET' ? '{}' : `${randomUUID()}-{}`)
      const all = {
        host: new URL(url).host,
        ...usualHeaders,
        ...headers,
        ...(method === 'POST' && {
          'content-type': 'application/octet-stream',
          'content-length': String(small.length),
        }),
      }
      const lines = Object.entries(all).map(([name, text]) => `${name}: ${text}`)
      const [before, after] = `${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`.split('{}')
      return `
local before, after = ${luaText(before!)}, ${luaText(after!)}
local body = ${method === 'POST' ? luaText(small.toString()) : "''"}
local counted = 0
local function count() counted = counted + 1 return counted end
function init() math.randomseed(os.time()) end
function request() return before .. string.format('%016d', ${number}) .. after .. body end
`
    },
  }
}

function reportResult(subject: string, ours: Sample[], reference: Sample[]): void {
  const throughput = compare(ours, reference, each => each['per_second']!)
  report({
    bench: 'storage-small',
    subject: `${subject} of 1 kB`,
    target: { atLeast },
    measured: throughput.ratio,
    unit: 'of the throughput of pgbench',
    range: throughput.range,
    ours: throughput.measured,
    pgbench: throughput.reference,
    rounds: throughput.rounds,
    round_seconds: seconds,
  })
}
