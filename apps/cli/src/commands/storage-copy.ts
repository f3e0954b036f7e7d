// Copies files between this machine and a project, and within a project.
import type { Given } from '../arguments.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { bytes, clean } from '../print.ts'
import { parseAddress, withBucket } from '../storage/address.ts'
import { openStorage, type StorageClient } from '../storage/client.ts'
import { elapsed } from '../storage/progress.ts'
import { type CopyOptions, findLocal, findRemote } from '../storage/sources.ts'
import { checkCacheControl, planCopies, planDownloads, planUploads } from '../storage/transfer-plan.ts'
import { runTransfers, type Transfer, type Transferred } from '../storage/transfers.ts'

export async function copy(context: Context): Promise<Answer> {
  const jobs = jobsIn(context.given)
  const { client, transfers } = await planTransfers(context)
  const startedAt = performance.now()
  const transferred = await runTransfers(context, client, transfers, jobs)
  return answerOf(transferred, (performance.now() - startedAt) / 1000)
}

async function planTransfers(context: Context): Promise<{ client: StorageClient; transfers: Transfer[] }> {
  const { given } = context
  const [source, destination] = [given.operands['source']!, given.operands['destination']!]
  const [from, to] = [parseAddress(source), parseAddress(destination)]
  for (const each of [from, to]) if (each) withBucket(each)
  const options = optionsIn(given)
  if (from) {
    const client = await openStorage(context)
    const found = await findRemote(client, from, options)
    const transfers = to
      ? planCopies(client, found, to, options)
      : planDownloads(client, found, destination, context)
    return { client, transfers: await transfers }
  }
  if (!to)
    throw new Failure(
      'usage_invalid_value',
      'Neither the source nor the destination is a file of a project.',
      'Write the one of the project as ss:///bucket/path.',
    )
  const found = await findLocal(source, options, context)
  checkCacheControl(options, found)
  const client = await openStorage(context)
  return { client, transfers: await planUploads(client, found, to, options) }
}

function optionsIn({ values, switches }: Given): CopyOptions {
  const cacheControl = values['cache-control'] ?? null
  return {
    isRecursive: switches.has('recursive'),
    contentType: values['content-type'] ?? null,
    cacheControl: cacheControl && /^\d+$/.test(cacheControl) ? `max-age=${cacheControl}` : cacheControl,
  }
}

function jobsIn({ values }: Given): number {
  const given = values['jobs'] ?? '4'
  const jobs = Number(given)
  if (/^\d+$/.test(given) && jobs >= 1 && jobs <= 32) return jobs
  throw new Failure('usage_invalid_value', `--jobs cannot be "${given}": it must be a number from 1 to 32.`)
}

function answerOf(files: readonly Transferred[], seconds: number): Answer {
  const total = files.reduce((sum, each) => sum + each.bytes, 0)
  const what = files.length === 1 ? `${files[0]!.from} to ${files[0]!.to}` : `${files.length} files`
  const speed = `${bytes(Math.round(total / Math.max(seconds, 0.001)))}/s`
  return {
    data: { files, count: files.length, bytes: total, seconds: Math.round(seconds * 1000) / 1000 },
    text: () => `Copied ${clean(what)}: ${bytes(total)} in ${elapsed(seconds)} (${speed}).`,
  }
}
