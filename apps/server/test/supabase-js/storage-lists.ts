// list for one folder, and listV2 with pages.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { done, folder, type Stage, statusAndCode } from './storage-stage.ts'

type ListOptions = Parameters<Stage['files']['list']>[1]
type ListV2Options = Parameters<Stage['files']['listV2']>[0]
type Page = NonNullable<Awaited<ReturnType<Stage['files']['listV2']>>['data']>

/** Uploaded in this order, with increasing times. */
const tree = [
  'zebra.txt',
  'Apple.txt',
  'sub/b.txt',
  'sub/a.txt',
  'banana.txt',
  'sub/deep/x.txt',
  'Other/o.txt',
]

/** A bucket with these files. */
async function planted(stage: Stage): Promise<Stage['files']> {
  const bucket = folder()
  done(await stage.service.createBucket(bucket))
  const files = stage.service.from(bucket)
  for (const path of tree) {
    done(await files.upload(path, path, { contentType: 'text/csv' }))
    await sleep(2)
  }
  return files
}

export function listTests(stage: () => Stage): void {
  test('list returns the files of a folder, and its subfolders with only a name', async () => {
    const files = await planted(stage())
    const all = done(await files.list())
    // Folders and files are sorted together, case-insensitively.
    assert.deepEqual(
      all.map(each => each.name),
      ['Apple.txt', 'banana.txt', 'Other', 'sub', 'zebra.txt'],
    )
    const nothing = { id: null, updated_at: null, created_at: null, last_accessed_at: null, metadata: null }
    assert.deepEqual(all[3], { name: 'sub', ...nothing })
    const [file] = all
    assert.match(file!.id!, /^[0-9a-f-]{36}$/)
    for (const time of [file!.created_at, file!.updated_at])
      assert.ok(Math.abs(Date.parse(time!) - Date.now()) < 60_000, `${time}`)
    const { eTag, lastModified, ...metadata } = file!.metadata!
    assert.deepEqual(metadata, {
      size: 9,
      mimetype: 'text/csv',
      cacheControl: 'max-age=3600',
      contentLength: 9,
      httpStatusCode: 200,
    })
    assert.match(eTag, /^".+"$/)
    assert.ok(Date.parse(lastModified) > 0)
    for (const path of ['sub', 'sub/'])
      assert.deepEqual(
        done(await files.list(path)).map(each => each.name),
        ['a.txt', 'b.txt', 'deep'],
        path,
      )
    assert.deepEqual(
      done(await files.list('sub/deep')).map(each => each.name),
      ['x.txt'],
    )
    for (const path of ['su', 'SUB', 'nowhere', 'zebra.txt', 'sub/%', '_ub'])
      assert.deepEqual(done(await files.list(path)), [], path)
  })

  test('limit and offset count files and folders', async () => {
    const files = await planted(stage())
    const names = async (options: ListOptions) => done(await files.list('', options)).map(each => each.name)
    assert.deepEqual(await names({ limit: 3 }), ['Apple.txt', 'banana.txt', 'Other'])
    assert.deepEqual(await names({ limit: 2, offset: 3 }), ['sub', 'zebra.txt'])
    assert.deepEqual(await names({ offset: 5 }), [])
    assert.deepEqual(await names({ limit: 1, offset: 1, sortBy: { order: 'desc' } }), ['sub'])
  })

  test('list sorts by name or time in both directions', async () => {
    const files = await planted(stage())
    const names = async (column: string, order: string) =>
      done(await files.list('', { sortBy: { column, order } })).map(each => each.name)
    assert.deepEqual(await names('name', 'desc'), ['zebra.txt', 'sub', 'Other', 'banana.txt', 'Apple.txt'])
    for (const column of ['created_at', 'updated_at']) {
      const asc = await names(column, 'asc')
      // Folders have no time and come first.
      assert.deepEqual(asc.slice(0, 2).sort(), ['Other', 'sub'], column)
      assert.deepEqual(asc.slice(2), ['zebra.txt', 'Apple.txt', 'banana.txt'], column)
      assert.deepEqual(
        (await names(column, 'desc')).slice(2),
        ['banana.txt', 'Apple.txt', 'zebra.txt'],
        column,
      )
    }
    assert.equal((await names('last_accessed_at', 'asc')).length, 5)
    done(await files.update('zebra.txt', 'again'))
    assert.deepEqual((await names('updated_at', 'desc'))[2], 'zebra.txt')
    assert.deepEqual((await names('created_at', 'asc'))[2], 'zebra.txt')
    const unknown = await files.list('', { sortBy: { column: 'metadata; drop table', order: 'asc' } })
    assert.equal(statusAndCode(unknown.error)[0], 400)
  })

  test('search matches the beginning of names in the folder, case-insensitively', async () => {
    const files = await planted(stage())
    const names = async (path: string, search: string) =>
      done(await files.list(path, { search })).map(each => each.name)
    assert.deepEqual(await names('', 'APP'), ['Apple.txt'])
    assert.deepEqual(await names('', 's'), ['sub'])
    assert.deepEqual(await names('sub', 'b'), ['b.txt'])
    assert.deepEqual(await names('', 'nana'), [])
    assert.deepEqual(await names('', '%'), [])
    assert.deepEqual(await names('', '_pple'), [])
  })

  test('a missing bucket lists as empty', async () => {
    const { service } = stage()
    assert.deepEqual(done(await service.from(folder()).list()), [])
  })

  test('list can be aborted', async () => {
    const { files } = stage()
    const { error } = await files.list('', {}, { signal: AbortSignal.abort() })
    assert.equal(error?.name, 'StorageUnknownError')
  })
}

export function listV2Tests(stage: () => Stage): void {
  test('listV2 returns full names, flat or by folder', async () => {
    const files = await planted(stage())
    const flat = done(await files.listV2())
    assert.deepEqual(
      flat.objects.map(each => each.name),
      // In byte order: upper case first.
      ['Apple.txt', 'Other/o.txt', 'banana.txt', 'sub/a.txt', 'sub/b.txt', 'sub/deep/x.txt', 'zebra.txt'],
    )
    assert.deepEqual([flat.folders, flat.hasNext, flat.nextCursor], [[], false, undefined])
    assert.equal(flat.objects[0]!.metadata?.size, 9)
    assert.match(flat.objects[0]!.id, /^[0-9a-f-]{36}$/)
    const grouped = done(await files.listV2({ with_delimiter: true }))
    assert.deepEqual(
      grouped.objects.map(each => each.name),
      ['Apple.txt', 'banana.txt', 'zebra.txt'],
    )
    assert.deepEqual(
      grouped.folders.map(({ name, key }) => [name, key]),
      [
        ['Other/', 'Other'],
        ['sub/', 'sub'],
      ],
    )
    const below = done(await files.listV2({ with_delimiter: true, prefix: 'sub/' }))
    assert.deepEqual(
      [below.folders.map(({ name, key }) => [name, key]), below.objects.map(each => each.name)],
      [[['sub/deep/', 'deep']], ['sub/a.txt', 'sub/b.txt']],
    )
  })

  test('listV2 uses the prefix literally, without added slash or wildcards', async () => {
    const files = await planted(stage())
    const names = async (prefix: string) =>
      done(await files.listV2({ prefix })).objects.map(each => each.name)
    assert.deepEqual(await names('su'), ['sub/a.txt', 'sub/b.txt', 'sub/deep/x.txt'])
    assert.deepEqual(await names('sub/d'), ['sub/deep/x.txt'])
    for (const prefix of ['SUB', '%', '_ub', 'sub/a.txt/']) assert.deepEqual(await names(prefix), [], prefix)
    const grouped = done(await files.listV2({ prefix: 'su', with_delimiter: true }))
    assert.deepEqual([grouped.folders.map(each => each.name), grouped.objects], [['sub/'], []])
  })

  test('listV2 returns the next page with only the cursor, in every order', async () => {
    const files = await planted(stage())
    const pages = async (first: ListV2Options) => {
      const seen: string[] = []
      let options: ListV2Options = { ...first, limit: 2 }
      for (let count = 1; ; count++) {
        const page: Page = done(await files.listV2(options))
        const names = [...page.folders, ...page.objects].map(each => each.name)
        assert.ok(names.length <= 2, 'files and folders count together')
        seen.push(...names)
        assert.equal(page.hasNext, page.nextCursor !== undefined)
        if (!page.hasNext) return { seen, count }
        assert.ok(count < 20)
        // The cursor contains all other options.
        options = { limit: 2, cursor: page.nextCursor! }
      }
    }
    const byName = [...tree].sort()
    assert.deepEqual(await pages({}), { seen: byName, count: 4 })
    assert.deepEqual((await pages({ sortBy: { column: 'name', order: 'desc' } })).seen, byName.toReversed())
    assert.deepEqual((await pages({ sortBy: { column: 'created_at', order: 'asc' } })).seen, tree)
    assert.deepEqual(
      (await pages({ sortBy: { column: 'created_at', order: 'desc' } })).seen,
      tree.toReversed(),
    )
    assert.deepEqual((await pages({ sortBy: { column: 'updated_at' } })).seen, tree)
    const grouped = await pages({ with_delimiter: true })
    assert.deepEqual(grouped.seen.sort(), ['Apple.txt', 'Other/', 'banana.txt', 'sub/', 'zebra.txt'])
    assert.equal(grouped.count, 3)
    const below = await pages({ prefix: 'sub/' })
    assert.deepEqual(below.seen, ['sub/a.txt', 'sub/b.txt', 'sub/deep/x.txt'])
  })

  test('an invalid cursor or order is 400', async () => {
    const { files } = stage()
    assert.equal(statusAndCode((await files.listV2({ cursor: 'bm90IGEgY3Vyc29y' })).error)[0], 400)
    const sorted = await files.listV2({ sortBy: { column: 'owner' as 'name' } })
    assert.equal(statusAndCode(sorted.error)[0], 400)
    assert.equal(statusAndCode((await files.listV2({ limit: 0 })).error)[0], 400)
    const calledOff = await files.listV2({}, { signal: AbortSignal.abort() })
    assert.equal(calledOff.error?.name, 'StorageUnknownError')
  })

  test('a list contains only files that the caller may see', async () => {
    const { anon, service } = stage()
    const bucket = folder()
    done(await service.createBucket(bucket, { public: true }))
    done(await service.from(bucket).upload('a', 'x'))
    // Files of a public bucket are readable by name, but not listed.
    assert.deepEqual(done(await anon.from(bucket).list()), [])
    assert.deepEqual(done(await anon.from(bucket).listV2()).objects, [])
    await stage().sql(
      `create policy listed_${bucket} on storage.objects for select using (bucket_id = '${bucket}')`,
    )
    assert.equal(done(await anon.from(bucket).list()).length, 1)
    assert.equal(done(await anon.from(bucket).listV2()).objects.length, 1)
  })
}
