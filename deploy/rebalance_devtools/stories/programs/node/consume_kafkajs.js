// A consumer of KafkaJS as stories run it, writing its events as event_log.py does.
//
//   node consume_kafkajs.js '{"name": …, "topic": …, "group": …, "bootstrap": …, …}'
//
// SIGTERM closes it in order. SIGUSR1 makes it work on the next record for stall_ms: without blocking the event loop,
// and without a heartbeat, because KafkaJS sends those between records. Its handler throws at a record whose value is
// fails_of, every time.
'use strict'

const { Kafka, logLevel } = require('kafkajs')

const wanted = JSON.parse(process.argv[2])
let stalls = false

function writeEvent(event, more = {}) {
  const line = { t_ms: Date.now(), name: wanted.name, process: `${wanted.name}/${process.pid}`, event, ...more }
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

function given(values) {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))
}

async function work() {
  if (!stalls) return
  stalls = false
  writeEvent('stalls', { milliseconds: wanted.stall_ms })
  await new Promise((resolve) => setTimeout(resolve, wanted.stall_ms))
}

async function main() {
  const client = given({ clientId: wanted.client_id, brokers: [wanted.bootstrap], logLevel: logLevel.NOTHING })
  const consumer = new Kafka(client).consumer(
    given({
      groupId: wanted.group,
      sessionTimeout: wanted.session_ms,
      heartbeatInterval: wanted.heartbeat_ms,
      rebalanceTimeout: wanted.rebalance_ms,
    }),
  )
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const partitions = Object.entries(payload.memberAssignment).flatMap(([topic, numbers]) =>
      numbers.map((number) => [topic, number]),
    )
    writeEvent('assigned', { partitions, member_id: payload.memberId })
  })
  consumer.on(consumer.events.REBALANCING, () => writeEvent('revoked'))
  consumer.on(consumer.events.CRASH, ({ payload }) => writeEvent('error', { error: String(payload.error) }))
  process.on('SIGUSR1', () => {
    stalls = true
  })
  process.on('SIGTERM', async () => {
    await consumer.disconnect()
    writeEvent('closed')
    process.exit(0)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [wanted.topic], fromBeginning: true })
  writeEvent('started')
  await consumer.run(
    given({
      autoCommitInterval: wanted.commit_ms,
      eachMessage: async ({ topic, partition, message }) => {
        const offset = Number(message.offset)
        writeEvent('records', { count: 1, ranges: [[topic, partition, offset, offset]] })
        await work()
        if (wanted.fails_of !== undefined && String(message.value) === wanted.fails_of) {
          throw new Error('cannot work on this record')
        }
      },
    }),
  )
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`)
  process.exit(3)
})
