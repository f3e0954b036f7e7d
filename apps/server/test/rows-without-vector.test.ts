// 1 §4.2 on a server without pgvector, like the embedded one: distance operators are rejected with a reason.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { eventually } from './eventually.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: CreatedProject
before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_RATE_LIMIT_ANON: '0' } })
  project = await platform.createProject()
  await platform.app.databases.asOwner({ ref: await platform.refOf(project.id) }, session =>
    session.script(`create table public.documents (id int primary key, embedding text);
      create policy everybody on public.documents using (true);
      insert into public.documents values (1, '[1,0,0]')`),
  )
  await eventually(async () => (await get('documents')).status !== 404, 'the API serves the table')
})
after(() => platform?.stop())

const get = (path: string): Promise<Reply> =>
  platform.call('GET', `/v1/rest/${project.id}/${path}`, { apikey: project.anon_key })

for (const metric of ['l2', 'cosine', 'ip'])
  test(`rows without pgvector: ${metric} as filter or order is a 400 that names the extension vector`, async () => {
    for (const query of [`embedding=${metric}.[1,0,0]`, `order=embedding.${metric}.[1,0,0]`]) {
      const { status, body } = await get(`documents?${query}`)
      assert.equal(status, 400, `${query}: ${JSON.stringify(body)}`)
      assert.match(`${body.message} ${body.hint}`, /extension "?vector"?|"?vector"? extension/i, query)
      assert.equal(body.statusCode, 400)
      assert.notEqual(body.code, '')
    }
  })

test('rows without pgvector: requests without distance operators work', async () => {
  assert.deepEqual((await get('documents?select=id&order=embedding.desc')).body, [{ id: 1 }])
})
