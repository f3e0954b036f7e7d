// A process that archives WAL, takes a base backup or recovers, and runs until it is killed. Its argument says what and where.
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import { takeBaseBackup } from '#src/kernel/postgres/recovery/base-backup.ts'
import { planRecovery, readCatalogue } from '#src/kernel/postgres/recovery/catalogue.ts'
import { recoverAside } from '#src/kernel/postgres/recovery/recovery.ts'
import { startWalArchive } from '#src/kernel/postgres/recovery/wal-archive.ts'

const { address, dataKey, systemId, piecesDir, spoolDir, place, work } = JSON.parse(process.argv[2]!)
const store = {
  pieces: await openDirectoryPieces(piecesDir, { isDurable: false }),
  dataKey: Buffer.from(dataKey, 'hex'),
  systemId,
  spoolDir,
}
const log = { info() {}, warn: console.error, error: console.error }

if (work.kind === 'receive') startWalArchive({ address, store, log, storesTail: true })
if (work.kind === 'base backup') await takeBaseBackup(address, store)
if (work.kind === 'recover') {
  const plan = planRecovery(await readCatalogue(store), work.target)
  await recoverAside({ place, store, plan, databases: work.databases, password: address.password })
}
console.log('done')
setInterval(() => {}, 1000)
