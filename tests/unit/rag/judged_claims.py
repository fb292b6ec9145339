"""Claims about a source, and whether a careful reader finds them in it: what the judge of citations is measured by."""

from __future__ import annotations

TRAVEL = (
    "The standard nightly cap is EUR 155 including breakfast and taxes. If you stay with friends or family instead of "
    "in a hotel, you may claim a flat EUR 35 per night. Fines for parking or speeding are never reimbursed, no matter "
    "how late you were running. If a receipt is lost, submit form FRM-112 (missing receipt declaration)."
)
SICK = (
    "On the death of a close relative, bereavement leave is five days, plus up to two days for travel. Illness during "
    "annual leave: the days are credited back if a certificate is presented for them. After 5 to 10 years the full "
    "rate is paid for 18 weeks."
)
BROKER = (
    "Code: HLY-4031; Name: MESSAGE_TOO_LARGE; Meaning and remedy: A single message exceeds the configured maximum.\n\n"
    "Raise broker.max_message_bytes or split the message. The default is 1,048,576 bytes. A consumer that falls "
    "behind does not slow the producers down."
)
OFFICE = (
    "The building is open from 06:30 to 21:00 on working days. Assemble at the crane on the quay, not in the car park. "
    "Only the press office speaks to journalists. If one rings you, be friendly, take a number and pass it on within "
    "the hour. Telephone calls while driving are forbidden, with a hands-free set too."
)
PAY = (
    "A refund takes five business days after it is approved. Processing fees are not returned with a refund. A "
    "chargeback costs 15 EUR. Payouts below 25.00 EUR are held until the next run on 2026-03-01."
)

SUPPORTED: list[tuple[str, str]] = [
    (TRAVEL, "The hotel cap is EUR 155 a night, with breakfast and taxes."),
    (TRAVEL, "Staying with family or friends lets you claim EUR 35 per night."),
    (TRAVEL, "Speeding fines are not reimbursed."),
    (TRAVEL, "You will not be reimbursed for a parking fine."),
    (TRAVEL, "Use form FRM-112 for a lost receipt."),
    (TRAVEL, "**FRM-112** is the missing receipt declaration"),
    (SICK, "Bereavement leave is 5 days, and two more may be taken for travel."),
    (SICK, "You get five days off when a close relative dies."),
    (SICK, "If you fall ill during annual leave, you get the days back when you present a certificate."),
    (SICK, "With 5 to 10 years of service, sick pay at the full rate lasts 18 weeks."),
    (BROKER, "HLY-4031 (MESSAGE_TOO_LARGE) means that a single message is larger than the configured maximum."),
    (BROKER, "Raise `broker.max_message_bytes`, or split the message."),
    (BROKER, "max_message_bytes is 1048576 bytes by default."),
    (BROKER, "Producers are not slowed down by a consumer that falls behind."),
    (OFFICE, "On working days the building is open from 6:30 until 21:00."),
    (OFFICE, "You must not make telephone calls while driving, even with a hands-free set."),
    (OFFICE, "Meet at the crane on the quay in an emergency."),
    (OFFICE, "When a journalist calls, take the number and pass it on to the press office within one hour."),
    (PAY, "Refunds take 5 business days once approved."),
    (PAY, "A chargeback has a cost of EUR 15."),
    (PAY, "Processing fees aren't returned when you refund."),
    (PAY, "Payouts under EUR 25 wait for the next run, on 1 March 2026 (2026-03-01)."),
]
NOT_SUPPORTED: list[tuple[str, str]] = [
    (TRAVEL, "The hotel cap is EUR 165 a night, with breakfast and taxes."),
    (TRAVEL, "Staying with family or friends lets you claim EUR 45 per night."),
    (TRAVEL, "Use form FRM-113 for a lost receipt."),
    (TRAVEL, "The mileage rate for a private car is paid per kilometre."),
    (TRAVEL, "Business class is booked for flights over six hours."),
    (SICK, "Bereavement leave is 15 days, plus up to two days for travel."),
    (SICK, "Parental leave may be shared between both parents."),
    (SICK, "Overtime is paid at a higher rate on public holidays."),
    (BROKER, "HLY-4032 means that a single message exceeds the configured maximum."),
    (BROKER, "The default is 2,097,152 bytes."),
    (BROKER, "Raise broker.max_batch_bytes or split the message."),
    (BROKER, "A consumer that falls behind does slow the producers down."),
    (BROKER, "Replication keeps three copies of every partition."),
    (OFFICE, "The building is open from 06:30 to 22:00 on working days."),
    (OFFICE, "Telephone calls while driving are not forbidden, with a hands-free set too."),
    (OFFICE, "Visitors need a badge from reception."),
    (OFFICE, "The canteen serves lunch to contractors free of charge."),
    (PAY, "A refund takes ten business days after it is approved."),
    (PAY, "Processing fees are returned with a refund."),
    (PAY, "Payouts below 25.00 EUR are held until the next run on 2026-04-01."),
    (PAY, "Paylane supports Apple Pay and Google Pay."),
    (PAY, "Disputes are decided by the issuing bank."),
]
