// Copies between this machine and the files of a project, and within them.
import type { Given } from '../arguments.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { bytes, clean } from '../print.ts'
import { parseAddress, withBucket } from '../storage/address.ts'
import {
  checkCacheControl,
  findLocal,
  findRemote,
  planCopies,
  planDownloads,
  planUploads,
  type Wish,
} from '../storage/plans.ts'
import { elapsed } from '../storage/progress.ts'
import { type Carried, carryAll, type Transfer } from '../storage/transfers.ts'
import { openWire, type Wire } from '../storage/wire.ts'

export async function copy(context: Context): Promise<Answer> {
  const jobs = jobsIn(context.given)
  const { wire, transfers } = await planned(context)
  const begun = performance.now()
  const carried = await carryAll(context, wire, transfers, jobs)
  return answerOf(carried, (performance.now() - begun) / 1000)
}

async function planned(context: Context): Promise<{ wire: Wire; transfers: Transfer[] }> {
  const { given, screen } = context
  const [source, destination] = [given.operands['source']!, given.operands['destination']!]
  const [from, to] = [parseAddress(source), parseAddress(destination)]
  for (const each of [from, to]) if (each) withBucket(each)
  const wish = wishIn(given)
  if (from) {
    const wire = await openWire(context)
    const found = await findRemote(wire, from, wish)
    const transfers = to ? planCopies(wire, found, to, wish) : planDownloads(wire, found, destination)
    return { wire, transfers: await transfers }
  }
  if (!to)
    throw new Failure(
      'usage_invalid_value',
      'Neither the source nor the destination is a file of a project.',
      'Write that one as ss:///bucket/path.',
    )
  const found = await findLocal(source, wish, screen)
  checkCacheControl(wish, found)
  const wire = await openWire(context)
  return { wire, transfers: await planUploads(wire, found, to, wish) }
}

function wishIn({ values, switches }: Given): Wish {
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
  throw new Failure('usage_invalid_value', `--jobs cannot be "${given}": it is a number from 1 to 32.`)
}

function answerOf(files: readonly Carried[], seconds: number): Answer {
  const total = files.reduce((sum, each) => sum + each.bytes, 0)
  const what = files.length === 1 ? `${files[0]!.from} to ${files[0]!.to}` : `${files.length} files`
  const speed = `${bytes(Math.round(total / Math.max(seconds, 0.001)))}/s`
  return {
    data: { files, count: files.length, bytes: total, seconds: Math.round(seconds * 1000) / 1000 },
    text: () => `Copied ${clean(what)}: ${bytes(total)} in ${elapsed(seconds)} (${speed}).`,
  }
}
