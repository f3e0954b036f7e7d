// A message through a queue over HTTP (send, read, ack), against pgbench sending the same SQL; and in batches of a
// hundred, as messages per second of CPU. Options: --rounds, --seconds, --patience.
import { parseArgs } from 'node:util'
import { statementsOf } from '../apps/server/src/services/queue/statements.ts'
import { compare, interleave, medians, report } from './measure.ts'
import { pgbenchScript } from './pgbench.ts'
import { batch, message, stageQueues } from './queue-stage.ts'
import { onStage } from './stage.ts'

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '3' },
    patience: { type: 'string', default: '5' },
  },
})
const seconds = Number(given.seconds)
/** The id for the ack, and the messages as the platform writes them. */
const readAnswer = `select max(msg_id) as msg_id, coalesce(json_agg(row_to_json(r) order by r.msg_id), '[]') as messages from taken r`
const atLeast = { ratio: 0.5, perCpuSecond: 20_000 }

await onStage(async stage => {
  const { platform, postmaster, database, svc, file, single, inBatches, load } = await stageQueues(stage)
  const ours = async () => {
    await load(single, 1)
    const sample = await load(single, seconds)
    return { ...sample, per_second: sample['per_second']! / 3 }
  }
  const reference = () =>
    pgbenchScript(
      { address: svc, database, postmaster },
      {
        file: file('reference.sql'),
        script: cycle('reference'),
        perRun: 1,
        clients: 16,
        seconds,
        settings: { role: 'service_role' },
      },
    )
  const batched = async () => {
    await load(inBatches, 1)
    const sample = await load(inBatches, seconds)
    const perMessage = ((sample['node_cpu_us']! + sample['postgres_cpu_us']!) * 3) / batch
    return { ...sample, cpu_us_per_message: perMessage, messages_per_cpu_second: 1e6 / perMessage }
  }

  await load(single, 2)
  await load(inBatches, 2)
  const samples = await interleave(
    Number(given.rounds),
    { ours, reference, batched },
    Number(given.patience) * 1000,
  )
  await platform.stop()

  const throughput = compare(samples.ours, samples.reference, each => each['per_second']!)
  report({
    bench: 'queue',
    subject: 'send, read and ack of a message',
    target: { atLeast: atLeast.ratio },
    measured: throughput.ratio,
    unit: 'of the throughput of pgbench',
    range: throughput.range,
    ours: throughput.measured,
    pgbench: throughput.reference,
    rounds: throughput.rounds,
    round_seconds: seconds,
  })
  const typical = medians(samples.batched)
  report({
    bench: 'queue',
    subject: 'messages in batches of 100, sent, read and acked',
    target: { atLeast: atLeast.perCpuSecond },
    measured: typical['messages_per_cpu_second']!,
    unit: 'messages per second of CPU',
    ours: typical,
    round_seconds: seconds,
  })
})

/** The statements of one cycle, each after the settings of a caller, as the platform sends them. The ack needs the id. */
function cycle(name: string): string {
  const { send, read, ack } = statementsOf(name)
  const become = `select set_config('role', 'service_role', true), set_config('request.jwt.claims', '{"role":"service_role"}', true), set_config('request.user_id', '', true), set_config('request.method', 'POST', true), set_config('request.path', '/queue', true), set_config('request.headers', '{}', true), set_config('statement_timeout', '8000', true), set_config('transaction_read_only', 'off', true), pg_advisory_unlock_all();`
  const fill = (sql: string, ...values: string[]) =>
    `${sql
      .replace(/\$(\d)/g, (_, place: string) => values[Number(place) - 1]!)
      .replace(/\s+/g, ' ')
      .trim()}`
  return `
\\startpipeline
${become}
${fill(send.sql, `'${JSON.stringify({ message })}'`, `'0'`)};
\\endpipeline
${fill(read.sql, `'0'`, `'600'`, `'1'`).replace(/\) select case when .*$/, `) ${readAnswer}`)} \\gset
\\startpipeline
${become}
${fill(ack.sql, `'{:msg_id}'`).replace(`'{:msg_id}'`, 'array[:msg_id]')};
\\endpipeline
`
}
