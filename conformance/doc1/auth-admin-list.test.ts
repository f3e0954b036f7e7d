// Auth contract §11: paging, filtering and sorting of users.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type AuthApi, assertAuthError, assertUser, authProject, succeeded } from '../auth.ts'
import { type Target, target } from '../target.ts'
import type { Reply } from '../wire.ts'

let it: Target
let auth: AuthApi
/** Ids, newest first. */
const ids: string[] = []
const count = 23
before(async () => {
  it = await target()
  auth = await authProject(it)
  for (let n = 0; n < count; n++) {
    const fields = { email: `user-${n}@example.test`, password: undefined }
    const user_metadata = n === 7 ? { full_name: 'Ada Lovelace' } : {}
    ids.unshift((await auth.createUser({ ...fields, user_metadata })).id)
  }
})
after(() => it.stop())

const list = (query = '') => auth.admin('GET', `/admin/users${query}`)
const idsOf = (reply: Reply): string[] => succeeded(reply).users.map(({ id }: any) => id)

/** Links by rel, as page and per_page. page must be the first parameter, because the client reads it by position. */
function linksOf({ headers }: Reply): Record<string, [number, number]> {
  const links: Record<string, [number, number]> = {}
  for (const each of (headers.get('link') ?? '').split(',').filter(part => part.trim() !== '')) {
    const [, page, perPage, rel] =
      /^\s*<[^>?]*\?page=(\d+)&per_page=(\d+)[^>]*>;\s*rel="(\w+)"$/.exec(each) ?? []
    assert.ok(rel, `not a link: ${each}`)
    links[rel] = [Number(page), Number(perPage)]
  }
  return links
}

for (const shape of ['native', 'alias'] as const)
  test(`auth contract §11: the list is newest first and has the total count (${shape})`, async () => {
    const reply = await auth.get('/admin/users', { as: 'service_role', shape })
    const body = succeeded(reply)
    assert.deepEqual(Object.keys(body).toSorted(), ['aud', 'users'])
    assert.equal(body.aud, 'authenticated')
    assert.deepEqual(idsOf(reply), ids)
    for (const user of body.users) assertUser(user)
    assert.equal(reply.headers.get('x-total-count'), String(count))
    assert.deepEqual(linksOf(reply), { last: [1, 50] })
  })

test('auth contract §11: pages, with links to the next and the last', async () => {
  const pages = []
  for (const page of [1, 2, 3]) {
    const reply = await list(`?page=${page}&per_page=10`)
    pages.push(...idsOf(reply))
    assert.equal(reply.headers.get('x-total-count'), String(count))
    const next = page < 3 ? { next: [page + 1, 10] } : {}
    assert.deepEqual(linksOf(reply), { ...next, last: [3, 10] })
  }
  assert.deepEqual(pages, ids)
  const beyond = await list('?page=4&per_page=10')
  assert.deepEqual(idsOf(beyond), [])
  assert.equal(beyond.headers.get('x-total-count'), String(count))
  assert.equal(linksOf(beyond)['next'], undefined)
})

test('auth contract §11: empty parameters mean the defaults', async () => {
  const reply = await list('?page=&per_page=')
  assert.deepEqual(idsOf(reply), ids)
  assert.deepEqual(linksOf(reply), { last: [1, 50] })
  assert.deepEqual(idsOf(await list('?page=2')), [])
  assert.deepEqual(idsOf(await list('?per_page=5')), ids.slice(0, 5))
})

test('auth contract §11: page parameters that are not numbers are 400', async () => {
  for (const query of ['page=x', 'per_page=x', 'page=-1', 'per_page=-1', 'page=1.5']) {
    const reply = await list(`?${query}`)
    assert.equal(reply.status, 400, `${query}: ${reply.status} ${reply.text}`)
    assertAuthError(reply, 400, 'validation_failed')
  }
  const far = await list('?page=99999999999999999999')
  assert.ok(far.status === 400 || idsOf(far).length === 0, far.text)
})

test('auth contract §11: filter matches a literal part of an address or full name', async () => {
  const found = async (filter: string) => idsOf(await list(`?filter=${encodeURIComponent(filter)}`))
  assert.deepEqual(await found('user-22@'), [ids[0]])
  assert.deepEqual(await found('user-2'), [ids[0], ids[1], ids[2], ids[20]])
  assert.deepEqual(await found('Lovelace'), [ids[count - 1 - 7]])
  assert.deepEqual(await found('example.test'), ids)
  for (const nobody of ['nobody', '%', '_', 'user_2', '\\', "'", "' or 1=1 --", 'user-%'])
    assert.deepEqual(await found(nobody), [], nobody)
  assert.deepEqual(await found(''), ids)
})

test('auth contract §11: the total counts the filtered users', async () => {
  const reply = await list('?page=1&per_page=3&filter=user-2')
  assert.equal(idsOf(reply).length, 3)
  assert.equal(reply.headers.get('x-total-count'), '4')
  assert.deepEqual(linksOf(reply), { next: [2, 3], last: [2, 3] })
})

test('auth contract §11: sort reverses the order', async () => {
  for (const [sort, expected] of [
    ['created_at asc', ids.toReversed()],
    ['created_at desc', ids],
    ['created_at', ids],
    ['', ids],
  ] as const) {
    const reply = await list(`?sort=${encodeURIComponent(sort)}`)
    if (sort === 'created_at' && reply.status === 400) continue
    assert.deepEqual(idsOf(reply), expected, sort)
  }
  for (const sort of ['email; drop table auth.users', 'nosuch asc', 'created_at sideways'])
    assertAuthError(await list(`?sort=${encodeURIComponent(sort)}`), 400, 'validation_failed')
})

test('auth contract §11: an empty project has an empty list', async () => {
  const empty = await authProject(it)
  const reply = await empty.admin('GET', '/admin/users')
  assert.deepEqual(succeeded(reply), { users: [], aud: 'authenticated' })
  assert.equal(reply.headers.get('x-total-count'), '0')
  assert.equal(linksOf(reply)['next'], undefined)
})
