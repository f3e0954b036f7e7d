// What this server does not offer is refused in words a client understands; and no method of the client is forgotten.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { held, leftOpen, offered, otherClients, walked } from './storage-recorder.ts'
import { shapes } from './storage-shapes.ts'
import { done, type Stage, told } from './storage-stage.ts'

export function leftOpenTests(stage: () => Stage): void {
  test('lifecycles, vectors and tables are refused in words', async () => {
    const { service } = stage()
    const rules = { rules: [] }
    const calls: Record<string, () => Promise<{ error: unknown }>> = {
      getBucketLifecycle: () => service.getBucketLifecycle('private'),
      updateBucketLifecycle: () => service.updateBucketLifecycle('private', rules),
      deleteBucketLifecycle: () => service.deleteBucketLifecycle('private'),
      'vectors.listBuckets': () => service.vectors.listBuckets(),
      'vectors.createBucket': () => service.vectors.createBucket('v'),
      'analytics.listBuckets': () => service.analytics.listBuckets(),
      'analytics.createBucket': () => service.analytics.createBucket('a'),
    }
    for (const [what, refuse] of Object.entries(calls)) {
      const [status] = told((await refuse()).error)
      assert.ok([404, 405, 501].includes(status as number), `${what}: ${status}`)
    }
    const { data } = await service.listBuckets()
    assert.deepEqual(
      data?.map(each => each.id).filter(id => ['a', 'v'].includes(id)),
      [],
    )
    assert.equal(done(await service.getBucket('private')).id, 'private')
  })

  test('every method the client has is walked by a file of this suite, or left open by name', () => {
    const client = shapes[0]!.connect('http://127.0.0.1:1', 'any', 'key')
    const methods = offered(client)
    assert.ok(methods.length > 30)
    const known: readonly string[] = [...Object.values(walked).flat(), ...leftOpen]
    assert.deepEqual(
      methods.filter(method => !known.includes(method)),
      [],
      'a new method needs a test',
    )
    assert.deepEqual(
      known.filter(method => !methods.includes(method)),
      [],
      'a method that is gone needs none',
    )
    assert.deepEqual(held(client).sort(), otherClients)
  })
}
