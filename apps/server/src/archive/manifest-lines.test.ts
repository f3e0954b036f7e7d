import assert from 'node:assert/strict'
import { test } from 'node:test'
import { writeLines } from './json-lines.ts'
import type { Manifest } from './manifest.ts'
import { manifestLines, readManifest } from './manifest-lines.ts'

const file = { number: 1, bytes: 0, storedBytes: 0, pieces: 0, mac: '' }

/** As long as the documented limits allow. */
function longManifest(): Manifest {
  const columns = Array.from({ length: 1600 }, (_, number) => `"${'""'.repeat(58)}${number}"`)
  return {
    backup: 'backup',
    platform: '1.0.0',
    project: {
      id: 'id',
      ref: 'p_ref',
      name: 'name',
      slug: 'slug',
      description: '',
      settings: {},
      quotas: {},
      schema_version: '1',
    },
    services: [{ service: 'jobs', file }],
    files: file,
    fileCount: 1,
    fileBytes: 2,
    database: {
      server: '18.4',
      schema: file,
      tables: Array.from({ length: 62 }, (_, number) => ({
        name: `public.t${number}`,
        owner: 'p_ref_owner',
        columns,
        file,
      })),
      sequences: Array.from({ length: 10_000 }, (_, number) => ({
        name: `public.s${number}`,
        value: '1',
        is_called: 't',
      })),
      extensions: [{ name: 'hstore', owner: 'p_ref_owner' }],
      materialized: [],
      largeObjects: Array.from({ length: 10_000 }, (_, number) => ({
        oid: `${number}`,
        owner: 'p_ref_owner',
        rights: null,
        comment: 'x\n'.repeat(50),
      })),
      largeObjectsFile: undefined,
      named: {
        'platform.seen': [
          { name: 'public.t1', is_public: true },
          { name: 'public.t2', is_public: false },
        ],
      },
    },
  }
}

/** What JSON keeps of it. */
const stored = (manifest: unknown) => JSON.parse(JSON.stringify(manifest))

async function* chunksOf(text: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < text.length; at += 100_000) yield text.subarray(at, at + 100_000)
}

test('manifest: it is written and read in short lines', async () => {
  const manifest = longManifest()
  const chunks: Buffer[] = []
  await writeLines(manifestLines(manifest), chunk => void chunks.push(chunk))
  const text = Buffer.concat(chunks)
  assert.ok(text.length > 20_000_000, String(text.length))
  const longest = Math.max(
    ...text
      .toString()
      .split('\n')
      .map(line => line.length),
  )
  assert.ok(longest < 500_000, String(longest))
  assert.deepEqual(stored(await readManifest<Manifest>(chunksOf(text))), stored(manifest))
})

test('manifest: that of an earlier release, which is one text, is read', async () => {
  const manifest = longManifest()
  const text = Buffer.from(JSON.stringify({ format: 1, ...manifest }))
  assert.deepEqual(stored(await readManifest<Manifest>(chunksOf(text))), stored(manifest))
})

test('manifest: an unknown format and an empty manifest are refused', async () => {
  const text = Buffer.from(`${JSON.stringify({ format: 4, ...longManifest() })}\n`)
  await assert.rejects(readManifest(chunksOf(text)), /the backup has the format 4/)
  await assert.rejects(readManifest(chunksOf(Buffer.alloc(0))), /the manifest is empty/)
})
