// 1 §4.2 "Vector ordering" and REST contract §6 row 21, in a project without the pgvector extension.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertStatus, type RowsApi, rowsProject } from '../rows.ts'
import { type Target, target } from '../target.ts'

let it: Target
let rows: RowsApi
before(async () => {
  it = await target()
  rows = await rowsProject(
    it,
    'create table public.documents (id int primary key, embedding real[]); insert into public.documents values (1, array[1,0,0])',
  )
})
after(() => it.stop())

for (const metric of ['l2', 'cosine', 'ip'])
  for (const query of [
    `embedding=${metric}.[1,0,0]`,
    `order=embedding.${metric}.[1,0,0]`,
    `order=embedding.${metric}.[1,0,0].desc`,
  ])
    test(`Issue: without pgvector ${query} returns 400 and names the extension`, async () => {
      for (const shape of ['native', 'alias'] as const) {
        const reply = await rows.get(`documents?${query}`, { shape })
        assertStatus(reply, 400)
        assert.match(`${reply.body.message} ${reply.body.hint} ${reply.body.details}`, /\b(pg)?vector\b/)
      }
    })

test('1 §4.2 an invalid vector literal returns 400', async () => {
  for (const vector of ['[1,x]', '1,0,0', '[', '[]x', "[1]'); drop table documents; --"]) {
    assertStatus(await rows.get(`documents?order=embedding.l2.${vector}`), 400)
    assertStatus(await rows.get(`documents?embedding=l2.${vector}`), 400)
  }
  assertStatus(await rows.get('documents'), 200)
})
