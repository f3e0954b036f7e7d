// A list of 30 rows with a nested to-one over GraphQL, against the same rows over REST, on the same platform, as anon under
// row-level security. The document is known, so that it is neither parsed nor validated again.
// Options: --rounds, --seconds.
import { parseArgs } from 'node:util'
import { compare, interleave, report } from './measure.ts'
import { parentCount, requestOf, sendOnce, stageRows } from './rows-stage.ts'
import { engineIn, onStage } from './stage.ts'
import { type LoadRequest, loaded } from './wrk.ts'

const { values: given } = parseArgs({
  options: { rounds: { type: 'string', default: '6' }, seconds: { type: 'string', default: '3' } },
})
const roundSeconds = Number(given.seconds)
const warmUpSeconds = 3
const connections = 32
const maxWaitMs = 5000
const children = parentCount * 10
/** All ids have five digits. */
const ids = { lowestId: 10_000, ids: children - 100 }

const query = `query Children($id: BigInt!) {
  childrenCollection(filter: {id: {gte: $id}}, first: 30) { edges { node { id name n parents { id name } } } }
}`

await onStage(async stage => {
  const rows = await stageRows(stage)
  const platform = await rows.start()
  const { postmaster } = engineIn(rows.dataDir)
  const graphql: LoadRequest = {
    method: 'POST',
    path: `/v1/graphql/${rows.projectId}`,
    ...ids,
    headers: { ...rows.anon, 'content-type': 'application/json' },
    body: JSON.stringify({ query, variables: { id: '{id}' } }),
  }
  const rest = requestOf(rows, {
    path: 'children?id=gte.{id}&order=id.asc&limit=30&select=id,name,n,parents(id,name)',
    ...ids,
  })
  const [overRest, overGraphql] = [
    await sendOnce(platform.url, rest, 12_345),
    await sendOnce(platform.url, graphql, 12_345),
  ]
  const edges = (
    overGraphql as unknown as { data: { childrenCollection: { edges: { node: { name: string } }[] } } }
  ).data.childrenCollection.edges
  if (
    overRest.length !== 30 ||
    edges.length !== 30 ||
    edges[0]!.node.name !== (overRest[0] as { name: string }).name
  )
    throw new Error('the two answers differ')
  const load = (request: LoadRequest, name: string, seconds = roundSeconds) =>
    loaded(platform, postmaster, request, { file: rows.file(`${name}.lua`), seconds, connections })
  await load(graphql, 'graphql', warmUpSeconds)
  await load(rest, 'rest', warmUpSeconds)
  const samples = await interleave(
    Number(given.rounds),
    { graphql: () => load(graphql, 'graphql'), rest: () => load(rest, 'rest') },
    maxWaitMs,
  )
  const { ratio, range, measured, reference, rounds } = compare(
    samples.graphql,
    samples.rest,
    each => each['per_second']!,
  )
  report({
    bench: 'graphql',
    subject: 'a list of 30 rows with a nested to-one, against REST',
    target: { atLeast: 0.7 },
    measured: ratio,
    unit: 'of its throughput',
    excellent: 0.9,
    range,
    ours: measured,
    rest: reference,
    rounds,
    round_seconds: roundSeconds,
  })
  await platform.stop()
})
