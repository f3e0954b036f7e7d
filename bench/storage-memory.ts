// Memory of the platform process while a large file is uploaded resumably and downloaded again: once in chunks of 6 MiB,
// as clients send them, and once in a single request. Options: --megabytes, --pause (seconds).
import { statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { cpuMicros, familyCpuMicros, report, residentMegabytes, rounded } from './measure.ts'
import { runToEnd } from './run-to-end.ts'
import { onStage, type StagedServer } from './stage.ts'
import { beginUpload, chunkHeaders, type StorageStage, send, stageStorage } from './storage-stage.ts'
import type { Transfer, TransferResult } from './transfer-client.ts'

const { values: given } = parseArgs({
  options: { megabytes: { type: 'string', default: '2048' }, pause: { type: 'string', default: '5' } },
})
const mebibyte = 1024 * 1024
const bytes = Number(given.megabytes) * mebibyte
const pauseMs = Number(given.pause) * 1000
const sampleIntervalMs = 200
const atMost = 60
const client = fileURLToPath(new URL('transfer-client.ts', import.meta.url))
const chunkSizes = { 'in chunks of 6 MiB': 6 * mebibyte, 'in a single request': bytes }

const free = statfsSync(tmpdir())
if (free.bavail * free.bsize < 2 * bytes + 1024 * mebibyte)
  throw new Error(`${tmpdir()} has too little space for ${given.megabytes} MB`)

await onStage(async stage => {
  const storage = await stageStorage(stage)
  for (const [method, chunkBytes] of Object.entries(chunkSizes)) {
    const platform = await storage.start()
    const idle = await measureIdle(storage, platform)
    const location = await beginUpload(storage.urlOf(platform), storage.headers, storage.keyOf('long'), bytes)
    const { 'upload-offset': _, ...headers } = { ...storage.headers, ...chunkHeaders(0) }
    const up = await measureTransfer(storage, platform, {
      kind: 'upload',
      url: location,
      headers,
      bytes,
      chunkBytes,
    })
    reportResult(`upload ${method}`, idle, up)
    const url = platform.url + storage.pathOf('long')
    const down = await measureTransfer(storage, platform, { kind: 'download', url, headers: storage.headers })
    if (down.sha256 !== up.sha256 || down.bytes !== bytes)
      throw new Error(`the download differs from the upload: ${JSON.stringify({ up, down })}`)
    reportResult(`download of what was uploaded ${method}`, idle, down)
    await send('DELETE', url, storage.headers)
    await platform.stop()
  }
})

/** The start leaves garbage that may be collected with the first file, so the lower value counts. */
async function measureIdle(storage: StorageStage, platform: StagedServer): Promise<number> {
  await sleep(pauseMs)
  const started = residentMegabytes(platform.pid)
  await storage.store(platform, 'short', Buffer.alloc(1024, 'x'))
  await (await send('GET', platform.url + storage.pathOf('short'), storage.headers)).arrayBuffer()
  await sleep(pauseMs)
  return Math.min(started, residentMegabytes(platform.pid))
}

type MeasuredTransfer = TransferResult & {
  peak: number
  after: number
  nodeCpuMicros: number
  postgresCpuMicros: number
}

async function measureTransfer(
  storage: StorageStage,
  { pid }: StagedServer,
  transfer: Transfer,
): Promise<MeasuredTransfer> {
  const { postmaster } = storage.postgres()
  const before = { node: cpuMicros(pid), postgres: familyCpuMicros(postmaster) }
  let peak = 0
  const samplePeak = () => {
    peak = Math.max(peak, residentMegabytes(pid))
  }
  const timer = setInterval(samplePeak, sampleIntervalMs)
  try {
    const { stdout } = await runToEnd(process.execPath, [client, JSON.stringify(transfer)])
    samplePeak()
    return {
      ...(JSON.parse(stdout) as TransferResult),
      peak,
      after: residentMegabytes(pid),
      nodeCpuMicros: cpuMicros(pid) - before.node,
      postgresCpuMicros: familyCpuMicros(postmaster) - before.postgres,
    }
  } finally {
    clearInterval(timer)
  }
}

function reportResult(subject: string, idle: number, done: MeasuredTransfer): void {
  report({
    bench: 'storage-memory',
    subject: `peak RSS over idle: ${rounded(bytes / mebibyte)} MB, ${subject}`,
    target: { atMost },
    measured: done.peak - idle,
    unit: 'MB',
    rss_mb: { idle: rounded(idle), peak: rounded(done.peak), right_after: rounded(done.after) },
    client_peak_mb: rounded(done.clientPeakMegabytes),
    requests: done.requests,
    sha256: done.sha256,
    node_cpu_s: rounded(done.nodeCpuMicros / 1e6),
    postgres_cpu_s: rounded(done.postgresCpuMicros / 1e6),
  })
}
